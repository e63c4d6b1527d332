import type { AdmissionStore } from '#shared/jobs/admission-store.ts'
import type { Pool } from '../pool.ts'
import { findMedia } from '../retention/media.ts'
import { acceptJob } from './accept-job.ts'
import { createKeyBinder } from './bind-free-keys.ts'
import { findBinding } from './bind-key.ts'
import { findPriorWork, hasJob } from './find-prior-work.ts'
import { findReceipt } from './find-receipt.ts'
import { createEnqueuedMarker } from './mark-enqueued.ts'
import { readOutcomes } from './read-outcomes.ts'
import { readQueueAges } from './read-queue-ages.ts'

/** Creates the API's store over one pool. */
export function createAdmissionStore(pool: Pool): AdmissionStore {
  return {
    bindKey: createKeyBinder(pool),
    findBinding: (idempotencyKey) => findBinding(pool, idempotencyKey),
    findPriorWork: (idempotencyKey, authorization) => findPriorWork(pool, idempotencyKey, authorization),
    hasJob: (idempotencyKey) => hasJob(pool, idempotencyKey),
    acceptJob: (job) => acceptJob(pool, job),
    markEnqueued: createEnqueuedMarker(pool),
    readOutcomes: (jobIds) => readOutcomes(pool, jobIds),
    readQueueAges: () => readQueueAges(pool),
    findReceipt: (receiptId) => findReceipt(pool, receiptId),
    findMedia: (tokenSha256) => findMedia(pool, tokenSha256),
  }
}
