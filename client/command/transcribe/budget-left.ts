import type { Farebox } from '../../farebox.ts'

/** Returns what the tightest of the budgets for this run and this day has left; `null` without any. */
export function budgetLeft(farebox: Farebox): bigint | null {
  const { session, day } = farebox.budgetLeft()
  if (session === null || day === null) return session ?? day
  return session < day ? session : day
}
