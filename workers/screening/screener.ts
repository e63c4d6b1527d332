/** The verdict. `unavailable` fails the job uncharged with a 503: unscreened input never reaches a provider. */
export type Screening =
  | { outcome: 'passed' }
  | { outcome: 'rejected'; reason: string }
  | { outcome: 'unavailable'; reason: string }

/** Port for safety screening, called before the provider. */
export interface Screener {
  screen(texts: readonly string[]): Promise<Screening>
}

/** Passes everything, for operators whose providers do their own screening. */
export const noScreening: Screener = { screen: async () => ({ outcome: 'passed' }) }
