/** Reads which blocks the chain holds to. What cannot be read throws. */
export interface BlockReader {
  /** The number of the newest block that can never be replaced. */
  readFinalizedNumber(): Promise<bigint>
  /** The hash of the block that has this number now; `null` when the chain is not that long (any more). */
  readHash(blockNumber: bigint): Promise<`0x${string}` | null>
}
