import type { AcceptanceStore } from '#shared/adapters/postgres/acceptance/acceptance-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'

/** Ages are needed to the second only, so a reading is reused for one second. */
const READING_LIFETIME_MS = 1000

/** Returns how long the oldest waiting job of an operation has waited, in milliseconds; 0 for an empty queue. */
export type ReadQueueAge = (operationId: string) => Promise<number>

/**
 * Creates a reader that reads the ages of all queues at most once a second. No request is rejected here because the
 * ledger cannot be read: the steps that need it report that.
 */
export function createQueueAgeReader(
  store: Pick<AcceptanceStore, 'readQueueAges'>,
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
          logger.warn('failed to read the queue ages', { error })
          return new Map<string, number>()
        })
        .finally(() => {
          validUntil = monotonicNow() + READING_LIFETIME_MS
        })
    }
    return (await reading).get(operationId) ?? 0
  }
}
