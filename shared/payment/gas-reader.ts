/** The gas balance of a settlement key, and what settlements cost it. */
export interface Gas {
  readonly balanceWei: bigint
  /**
   * How many of the most expensive settlements it pays for at the current fee. 0 while the base fee exceeds the
   * operator's maximum, since no settlement can then be mined.
   */
  readonly settlementsLeft: number
  /** What one settlement by permit is expected to cost at the current fee. */
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
