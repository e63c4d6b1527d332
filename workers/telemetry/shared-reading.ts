/** Half of Prometheus's default scrape timeout; slower values are left out of the scrape. */
const DEADLINE_MS = 5000

/** Shares one reading between all gauges of a scrape; `null` when it fails or takes too long. */
export function sharedReading<T>(read: () => Promise<T>): () => Promise<T | null> {
  let current: Promise<T | null> | null = null
  return () => {
    current ??= withinDeadline(read()).finally(() => {
      current = null
    })
    return current
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
