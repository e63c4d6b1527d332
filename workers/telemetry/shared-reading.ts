import { withDeadline } from '#shared/runtime/with-deadline.ts'

/** Half of Prometheus's default scrape timeout; slower values are left out of the scrape. */
const DEADLINE_MS = 5000

/** Shares one reading between all gauges of a scrape; `null` when it fails or takes too long. */
export function sharedReading<T>(read: () => Promise<T>): () => Promise<T | null> {
  let current: Promise<T | null> | null = null
  return () => {
    current ??= withDeadline(DEADLINE_MS, read(), () => null)
      .catch(() => null)
      .finally(() => {
        current = null
      })
    return current
  }
}
