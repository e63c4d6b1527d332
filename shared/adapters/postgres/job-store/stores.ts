import type { AdmissionStore, ExecutionStore } from '#shared/jobs/job-store.ts'
import type { LedgerFiguresStore } from '#shared/jobs/ledger-figures.ts'
import type { SettlementStore } from '#shared/jobs/settlement-store.ts'
import type { Pool } from '../pool.ts'
import { acceptJob } from './accept-job.ts'
import { createKeyBinder } from './bind-free-keys.ts'
import { findBinding, forgetExpiredChallenges } from './bind-key.ts'
import { claimJob, releaseJob, renewLease } from './claim-job.ts'
import { completeJob } from './complete-job.ts'
import { expireResults } from './expire-results.ts'
import { failJob } from './fail-job.ts'
import { failSettlement, markForReview } from './fail-settlement.ts'
import { findUnfinalBlocks, loseSettlement, markFinal, moveSettlement, readUnfinal } from './finality.ts'
import { findPriorWork, hasJob } from './find-prior-work.ts'
import { findReceipt } from './find-receipt.ts'
import { handOverJob } from './hand-over-job.ts'
import { addReplacement, fillGap, readLine, readNextAccountNonce, releaseLine, takeLine } from './keep-line.ts'
import { readLedgerFigures, rollUpTotals } from './ledger-figures.ts'
import { findExpiredMedia, findMedia, markMediaDeleted } from './media.ts'
import { readExposure } from './read-exposure.ts'
import { readOutcomes } from './read-outcomes.ts'
import { readQueueAges } from './read-queue-ages.ts'
import { createSettlementRecorder, readSettlement } from './record-settlement.ts'
import { renewSettlement } from './renew-settlement.ts'
import { sealResult } from './seal-result.ts'
import { readFigures } from './settlement-figures.ts'
import { eraseExpiredUploads, markUploadsDeleted, openStagedUpload } from './staged-uploads.ts'
import { startAttempt } from './start-attempt.ts'
import { createEnqueuedMarker, takeDueJobs } from './take-due-jobs.ts'

/** The API's side of the ledger over one pool. */
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

/** The workers' side of the ledger over one pool. */
export function createExecutionStore(pool: Pool): ExecutionStore {
  return {
    claimJob: (jobId, leaseMs) => claimJob(pool, jobId, leaseMs),
    renewLease: (job, leaseMs) => renewLease(pool, job, leaseMs),
    releaseJob: (job, delayMs) => releaseJob(pool, job, delayMs),
    handOverJob: (job) => handOverJob(pool, job),
    openStagedUpload: (stagedUploadId) => openStagedUpload(pool, stagedUploadId),
    readExposureAhead: (job, since) => readExposure(pool, job.authorization.payer, { ...since, aheadOf: job }),
    startAttempt: (job, deployment, failed) => startAttempt(pool, job, deployment, failed),
    sealResult: (job, attemptId, sealed, media) => sealResult(pool, job, attemptId, sealed, media),
    failJob: (job, failure) => failJob(pool, job, failure),
    recordSettlement: createSettlementRecorder(pool),
    readSettlement: (job) => readSettlement(pool, job),
    renewSettlement: (job, renewal) => renewSettlement(pool, job, renewal),
    completeJob: (job, completion) => completeJob(pool, job, completion),
    failSettlement: (job, failure) => failSettlement(pool, job, failure),
    markForReview: (job, reason) => markForReview(pool, job, reason),
    takeDueJobs: (states, limit) => takeDueJobs(pool, states, limit),
    eraseExpiredUploads: (limit) => eraseExpiredUploads(pool, limit),
    markUploadsDeleted: (objectKeys) => markUploadsDeleted(pool, objectKeys),
    findExpiredMedia: (limit) => findExpiredMedia(pool, limit),
    markMediaDeleted: (objectKeys) => markMediaDeleted(pool, objectKeys),
    expireResults: (retentionMs, limit) => expireResults(pool, retentionMs, limit),
    forgetExpiredChallenges: (limit) => forgetExpiredChallenges(pool, limit),
  }
}

/** The workers' ledger of account nonces and settlements over one pool. */
export function createSettlementStore(pool: Pool): SettlementStore {
  return {
    takeLine: (account, leaseMs) => takeLine(pool, account, leaseMs),
    readNextAccountNonce: (account) => readNextAccountNonce(pool, account),
    readLine: (account, accountNonceCount) => readLine(pool, account, accountNonceCount),
    addReplacement: (replacedHash, replacement) => addReplacement(pool, replacedHash, replacement),
    fillGap: (account, accountNonce, filler) => fillGap(pool, account, accountNonce, filler),
    releaseLine: (account) => releaseLine(pool, account),
    findUnfinalBlocks: (finalizedNumber) => findUnfinalBlocks(pool, finalizedNumber),
    readUnfinal: (fromNumber, limit) => readUnfinal(pool, fromNumber, limit),
    markFinal: (blockHashes) => markFinal(pool, blockHashes),
    moveSettlement: (settlementId, to) => moveSettlement(pool, settlementId, to),
    loseSettlement: (settlementId, reason) => loseSettlement(pool, settlementId, reason),
    readFigures: () => readFigures(pool),
  }
}

/** What the workers show of the whole ledger, over one pool. */
export function createLedgerFiguresStore(pool: Pool): LedgerFiguresStore {
  return { readLedgerFigures: () => readLedgerFigures(pool), rollUpTotals: () => rollUpTotals(pool) }
}
