/** What a settlement key has for gas. */
export interface Gas {
  readonly balanceWei: bigint
  /** How many of the dearest settlements that pays for at the fee a transaction offers now. */
  readonly settlementsLeft: number
}

/** Reads gas balances by address; holds no key. */
export interface GasReader {
  /** At most 30 seconds old, 2 when there is none left. Throws `payment_network_unavailable`. */
  readGas(facilitator: `0x${string}`): Promise<Gas>
}
