import { InvalidArgumentError } from 'commander'

const UNITS_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }

/** Parses a UTC day, a time of ISO 8601, or how long ago (`90m`, `24h`, `7d`, `2w`). */
export function timeOf(text: string): Date {
  const [, amount = '', unit = ''] = /^(\d{1,6})([mhdw])$/.exec(text) ?? []
  if (amount !== '') return new Date(Date.now() - Number(amount) * (UNITS_MS[unit] ?? 0))
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(text)
  const isTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/.test(text)
  const time = new Date(text)
  // `2026-02-31` would be read as a day of March.
  const isReal = !Number.isNaN(time.getTime()) && (!isDay || time.toISOString().startsWith(text))
  if ((isDay || isTime) && isReal) return time
  throw new InvalidArgumentError('Write a UTC day (2026-11-22), a time (2026-11-22T14:00Z), or how long ago (24h, 7d).')
}
