import { z } from 'zod'

export const DAY_MS = 86_400_000

/** The query parameter of a UTC day, `YYYY-MM-DD`; an unreadable or empty one counts as none. */
export const utcDay = z.iso.date().optional().catch(undefined)

/** Returns the beginning of a UTC day, or of one that follows it by `days`. */
export function beginningOf(day: string, days = 0): Date {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * DAY_MS)
}

/** Returns the UTC day of a moment. */
export function dayOf(moment: Date): string {
  return moment.toISOString().slice(0, 10)
}

/**
 * Returns the half-open period of the days from `from` to `until`, both inclusive; without a bound where none is given.
 */
export function boundsOf(days: { readonly from?: string | undefined; readonly until?: string | undefined }): {
  readonly from: Date | undefined
  readonly until: Date | undefined
} {
  return {
    from: days.from === undefined ? undefined : beginningOf(days.from),
    until: days.until === undefined ? undefined : beginningOf(days.until, 1),
  }
}
