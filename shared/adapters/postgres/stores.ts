import type { AdmissionStore, ExecutionStore } from '#shared/jobs/job-store.ts'
import type { LedgerFiguresStore } from '#shared/jobs/ledger-figures.ts'
import type { SettlementStore } from '#shared/jobs/settlement-store.ts'
import { acceptJob } from './admission/accept-job.ts'
import { createKeyBinder } from './admission/bind-free-keys.ts'
import { findBinding, forgetExpiredChallenges } from './admission/bind-key.ts'
import { findPriorWork, hasJob } from './admission/find-prior-work.ts'
import { findReceipt } from './admission/find-receipt.ts'
import { readExposure } from './admission/read-exposure.ts'
import { readOutcomes } from './admission/read-outcomes.ts'
import { readQueueAges } from './admission/read-queue-ages.ts'
import { claimJob, releaseJob, renewLease } from './execution/claim-job.ts'
import { completeJob } from './execution/complete-job.ts'
import { failJob } from './execution/fail-job.ts'
import { handOverJob } from './execution/hand-over-job.ts'
import { sealResult } from './execution/seal-result.ts'
import { startAttempt } from './execution/start-attempt.ts'
import { createEnqueuedMarker, takeDueJobs } from './execution/take-due-jobs.ts'
import type { Pool } from './pool.ts'
import { readLedgerTotals, rollUpTotals } from './reports/ledger-totals.ts'
import { expireResults } from './retention/expire-results.ts'
import { findExpiredMedia, findMedia, markMediaDeleted } from './retention/media.ts'
import { eraseExpiredUploads, markUploadsDeleted, openStagedUpload } from './retention/staged-uploads.ts'
import { failSettlement, markForReview } from './settlement/fail-settlement.ts'
import { findUnfinalBlocks, loseSettlement, markFinal, moveSettlement, readUnfinal } from './settlement/finality.ts'
import {
  addReplacement,
  fillGap,
  leaseNonceQueue,
  readNextAccountNonce,
  readNonceQueue,
  releaseNonceQueue,
} from './settlement/nonce-queue.ts'
import { createSettlementRecorder, readSettlement } from './settlement/record-settlement.ts'
import { renewSettlement } from './settlement/renew-settlement.ts'
import { readTotals } from './settlement/settlement-totals.ts'

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
    leaseNonceQueue: (account, leaseMs) => leaseNonceQueue(pool, account, leaseMs),
    readNextAccountNonce: (account) => readNextAccountNonce(pool, account),
    readNonceQueue: (account, accountNonceCount) => readNonceQueue(pool, account, accountNonceCount),
    addReplacement: (replacedHash, replacement) => addReplacement(pool, replacedHash, replacement),
    fillGap: (account, accountNonce, filler) => fillGap(pool, account, accountNonce, filler),
    releaseNonceQueue: (account) => releaseNonceQueue(pool, account),
    findUnfinalBlocks: (finalizedNumber) => findUnfinalBlocks(pool, finalizedNumber),
    readUnfinal: (fromNumber, limit) => readUnfinal(pool, fromNumber, limit),
    markFinal: (blockHashes) => markFinal(pool, blockHashes),
    moveSettlement: (settlementId, to) => moveSettlement(pool, settlementId, to),
    loseSettlement: (settlementId, reason) => loseSettlement(pool, settlementId, reason),
    readTotals: () => readTotals(pool),
  }
}

/** What the workers show of the whole ledger, over one pool. */
export function createLedgerFiguresStore(pool: Pool): LedgerFiguresStore {
  return { readLedgerTotals: () => readLedgerTotals(pool), rollUpTotals: () => rollUpTotals(pool) }
}
