import type { AdmissionStore } from '#shared/jobs/job-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'

/** Work grows old by seconds, so a reading serves everyone for one. */
const READING_LIFETIME_MS = 1000

/** How long the oldest waiting job of an operation has waited, in milliseconds; 0 for an empty queue. */
export type ReadQueueAge = (operationId: string) => Promise<number>

/**
 * Reads the ages of all queues at most once a second, however many ask. A ledger that cannot be read refuses nobody here: what
 * needs it says so itself.
 */
export function createQueueAgeReader(
  store: Pick<AdmissionStore, 'readQueueAges'>,
  logger: Logger,
  monotonicNow: () => number,
): ReadQueueAge {
  let reading: Promise<ReadonlyMap<string, number>> = Promise.resolve(new Map())
  let validUntil = Number.NEGATIVE_INFINITY
  return async (operationId) => {
    if (monotonicNow() >= validUntil) {
      validUntil = Number.POSITIVE_INFINITY
      reading = store
        .readQueueAges()
        .catch((error: unknown) => {
          logger.warn('the age of the queue could not be read', { error })
          return new Map<string, number>()
        })
        .finally(() => {
          validUntil = monotonicNow() + READING_LIFETIME_MS
        })
    }
    return (await reading).get(operationId) ?? 0
  }
}
