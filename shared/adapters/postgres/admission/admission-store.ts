import { NO_ARCHIVE, type ReceiptArchive } from '#shared/archive/receipt-archive.ts'
import type { AdmissionStore } from '#shared/jobs/admission-store.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import type { Pool } from '../pool.ts'
import { findMedia } from '../retention/hosted-media.ts'
import { findUnknownEnding, recordUnknownSettlement } from '../unknown-settlements.ts'
import { createJobAcceptor } from './accept-together.ts'
import { createKeyBinder } from './bind-free-keys.ts'
import { createBindingFinder } from './bind-key.ts'
import { createPriorWorkFinder, findOpenJob, hasJob } from './find-prior-work.ts'
import { findReceipt } from './find-receipt.ts'
import { createEnqueuedMarker } from './mark-enqueued.ts'
import { createNewPayersLimit } from './new-payers.ts'
import { endPermitTurn, findPermitTurn, takePermitTurn } from './permit-turns.ts'
import { readOutcomes } from './read-outcomes.ts'
import { readQueueAges } from './read-queue-ages.ts'
import { replaceClaim } from './replace-claim.ts'

export interface AdmissionLimits {
  readonly budget: UnchargedBudget
  /** The limit of what payments that their payers' settled charges do not cover may have open and lost in a day. */
  readonly newPayers: AtomicAmount
}

/** Creates the API's store over one pool, and the archive of its receipts. */
export function createAdmissionStore(
  pool: Pool,
  { budget, newPayers }: AdmissionLimits,
  archive: ReceiptArchive = NO_ARCHIVE,
): AdmissionStore {
  const limits = {
    budget,
    newPayers: createNewPayersLimit(newPayers, () => performance.now()),
  }
  return {
    bindKey: createKeyBinder(pool),
    replaceClaim: (request, claimedDigest) => replaceClaim(pool, request, claimedDigest),
    findBinding: createBindingFinder(pool),
    findPriorWork: createPriorWorkFinder(pool),
    hasJob: (idempotencyKey) => hasJob(pool, idempotencyKey),
    findOpenJob: (payer) => findOpenJob(pool, payer),
    takePermitTurn: (call, seconds) => takePermitTurn(pool, call, seconds),
    findPermitTurn: (payer) => findPermitTurn(pool, payer),
    endPermitTurn: (call) => endPermitTurn(pool, call),
    acceptJob: createJobAcceptor(pool, limits),
    recordUnknownSettlement: (settlement) => recordUnknownSettlement(pool, settlement),
    findUnknownEnding: (payment) => findUnknownEnding(pool, payment),
    markEnqueued: createEnqueuedMarker(pool),
    readOutcomes: (jobIds) => readOutcomes(pool, jobIds),
    readQueueAges: () => readQueueAges(pool),
    findReceipt: (receiptId) => findReceipt(pool, archive, receiptId),
    findMedia: (tokenSha256) => findMedia(pool, tokenSha256),
  }
}
