/** Prometheus gives a scrape ten seconds by default; what takes longer is left out of it. */
const DEADLINE_MS = 5000

/** All gauges of one scrape share one reading; `null` when it fails, or takes too long. */
export function sharedReading<T>(read: () => Promise<T>): () => Promise<T | null> {
  let present: Promise<T | null> | null = null
  return () => {
    present ??= withinDeadline(read()).finally(() => {
      present = null
    })
    return present
  }
}

async function withinDeadline<T>(reading: Promise<T>): Promise<T | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>()
  const timer = setTimeout(() => resolve(null), DEADLINE_MS)
  try {
    return await Promise.race([reading, late])
  } catch {
    return null
  } finally {
    clearTimeout(timer)
  }
}
