/** Bodies up to this size take a few milliseconds, as long as a round trip to a thread. */
export const SMALL_BODY_BYTES = 256 * 1024
