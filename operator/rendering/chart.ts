/** A chart as `operator/assets/charts.js` draws it. */
export interface Chart {
  readonly label: string
  /** JSON for the attribute `data-chart`. */
  readonly json: string
}

interface Series {
  readonly label: string
  readonly tone: 'good' | 'bad' | 'accent' | 'muted'
  readonly values: readonly (number | null)[]
}

/** Returns a function that makes charts over the same moments. */
export function chartsOver(
  moments: readonly Date[],
): (label: string, unit: string, series: readonly Series[]) => Chart {
  const times = moments.map((moment) => moment.getTime() / 1000)
  return (label, unit, series) => ({ label, json: JSON.stringify({ times, unit, series }) })
}

export function seconds(milliseconds: number | null): number | null {
  return milliseconds === null ? null : Math.round(milliseconds) / 1000
}
