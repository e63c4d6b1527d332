/** The gas balance of a settlement key. */
export interface Gas {
  readonly balanceWei: bigint
  /** How many of the most expensive settlements it pays for at the current fee. */
  readonly settlementsLeft: number
}

/** Reads gas balances by address, without any key. */
export interface GasReader {
  /**
   * Returns a reading at most 30 seconds old, or 2 when no settlement is left. Throws `payment_network_unavailable`.
   */
  readGas(facilitator: `0x${string}`): Promise<Gas>
}
