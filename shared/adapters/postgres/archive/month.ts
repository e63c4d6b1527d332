/** Returns the first moment of a month such as `2026-08`, and that of the next one, in UTC. */
export function boundsOf(month: string): readonly [from: Date, before: Date] {
  const [year, number] = month.split('-').map(Number) as [number, number]
  return [new Date(Date.UTC(year, number - 1)), new Date(Date.UTC(year, number))]
}

/** Returns the month of a moment in UTC. */
export function monthOf(moment: Date): string {
  return moment.toISOString().slice(0, '2026-08'.length)
}

/** Returns the first day of a month, as a date of PostgreSQL. */
export function firstDayOf(month: string): string {
  return `${month}-01`
}
