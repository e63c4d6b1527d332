/** The gas balance of a settlement key, and what settlements cost it. */
export interface Gas {
  readonly balanceWei: bigint
  /**
   * Number of the most expensive settlements that the key's balance pays for at the current fee. 0 while the base fee
   * exceeds the operator's maximum, since no settlement can then be mined.
   */
  readonly settlementsLeft: number
  /** Expected cost of one settlement by permit at the current fee. */
  readonly expectedSettlementWei: bigint
  /** Whether the operator's maximum fee is below what a settlement would otherwise offer. */
  readonly isFeeLimited: boolean
}

/** Reads gas balances by address, without any key. */
export interface GasReader {
  /**
   * Returns a reading at most 30 seconds old, or 2 when no settlement is left. Throws `payment_network_unavailable`.
   */
  readGas(facilitator: `0x${string}`): Promise<Gas>
}
