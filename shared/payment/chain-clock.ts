/** Tells the time that deadlines are measured by. */
export interface ChainClock {
  /**
   * The later of the machine's time and the chain's: an authorization that is too old by either must not start work. Throws
   * `payment_network_unavailable` when the chain cannot be asked. At most one RPC call per second.
   */
  chainNow(): Promise<Date>
  /** How far the machine's clock is ahead of a block that just came, or behind; `null` while no block was seen to come. */
  skewMs(): Promise<number | null>
}
