import type { MonthTotals } from '#shared/adapters/postgres/archive/archive-store.ts'
import type { ArchivedMonth } from './archive-months.ts'

const REPORT_EVERY_MS = 5000
const MEGABYTE = 1_000_000

/** Returns a function that prints each finished month that had calls, and how far a long one is. */
export function createProgress(): (month: ArchivedMonth) => void {
  const startedAt = performance.now()
  let [reportedAt, calls] = [startedAt, 0]
  return (done) => {
    if (done.isDone) {
      calls += done.calls
      if (done.calls + done.remaining > 0) console.log(renderMonth(done))
      return
    }
    if (performance.now() - reportedAt < REPORT_EVERY_MS) return
    reportedAt = performance.now()
    const perSecond = (calls + done.calls) / ((reportedAt - startedAt) / 1000)
    console.log(`${done.month}: ${done.calls} calls so far, ${Math.round(perSecond)} a second`)
  }
}

function renderMonth({ month, calls, objects, bytes, remaining }: ArchivedMonth): string {
  return `${month}: ${calls} calls in ${objects} objects of ${megabytes(bytes)} together; ${renderRemaining(remaining)}`
}

export function renderTotals({ month, calls, bytes, remaining }: MonthTotals): string {
  return `${month}: ${calls} calls with documents of ${megabytes(bytes)}, and their transactions; ${renderRemaining(remaining)}`
}

function renderRemaining(remaining: number): string {
  return remaining === 0 ? 'all are over' : `${remaining} are not over and stay as they are`
}

function megabytes(bytes: number): string {
  return `${(bytes / MEGABYTE).toFixed(1)} MB`
}
