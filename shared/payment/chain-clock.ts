/** The clock that deadlines are checked against. */
export interface ChainClock {
  /**
   * Returns the later of the machine's time and the chain's: an authorization that has expired by either must not start
   * work. Throws `payment_network_unavailable` when the network does not answer, or only with old blocks. At most one RPC
   * call per second.
   */
  chainNow(): Promise<Date>
  /**
   * Returns how far the machine's clock is ahead of a block just produced (negative: behind), or `null` before one was
   * seen.
   */
  skewMs(): Promise<number | null>
}
