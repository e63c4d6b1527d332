/** `unavailable` fails the job uncharged with a 503: nothing unscreened is ever sent on. */
export type Screening =
  | { outcome: 'passed' }
  | { outcome: 'rejected'; reason: string }
  | { outcome: 'unavailable'; reason: string }

/** Port for safety screening, called before the provider. */
export interface Screener {
  screen(texts: readonly string[]): Promise<Screening>
}

/** For operators whose providers screen by themselves. */
export const noScreening: Screener = { screen: async () => ({ outcome: 'passed' }) }
