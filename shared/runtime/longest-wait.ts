/** The most seconds that a setting may wait: Node's timers end at once when they are longer than 24 days. */
export const LONGEST_WAIT_SECONDS = 86_400
