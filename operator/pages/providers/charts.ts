import type { HealthInterval } from '#shared/adapters/postgres/console/machinery-store.ts'

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

/** Returns the charts of a deployment: its calls, and how long they took. */
export function chartsOf(intervals: readonly HealthInterval[]): readonly Chart[] {
  const times = intervals.map(({ startedAt }) => startedAt.getTime() / 1000)
  const chart = (label: string, unit: string, series: readonly Series[]): Chart => ({
    label,
    json: JSON.stringify({ times, unit, series }),
  })
  return [
    chart('Calls', 'calls', [
      { label: 'Succeeded', tone: 'good', values: intervals.map(({ succeeded }) => succeeded) },
      { label: 'Failed', tone: 'bad', values: intervals.map(({ failed }) => failed) },
    ]),
    chart('Duration of successful calls', 's', [
      { label: 'Median', tone: 'accent', values: intervals.map(({ medianMs }) => seconds(medianMs)) },
      { label: '95th percentile', tone: 'muted', values: intervals.map(({ p95Ms }) => seconds(p95Ms)) },
    ]),
  ]
}

function seconds(milliseconds: number | null): number | null {
  return milliseconds === null ? null : Math.round(milliseconds) / 1000
}
