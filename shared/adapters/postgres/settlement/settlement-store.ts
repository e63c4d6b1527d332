import type { SettlementStore } from '#shared/jobs/settlement-store.ts'
import type { Pool } from '../pool.ts'
import { recordUnknownSettlement } from '../unknown-settlements.ts'
import { abandonBatch } from './abandon-batch.ts'
import { createJobCompleter } from './complete-job.ts'
import { adoptSettlement, readEarlierSettlements } from './earlier-settlements.ts'
import { failSettlement, markForReview } from './fail-settlement.ts'
import { judgeFailed, readFailed, reopenSettlement } from './failed-settlements.ts'
import {
  findUnfinalBlocks,
  loseSettlement,
  markFinal,
  moveSettlement,
  readUnfinal,
  readUnfinalRemote,
} from './finality.ts'
import {
  abandonPermit,
  addReplacement,
  fillGap,
  leaseNonceQueue,
  readNextAccountNonce,
  readNonceQueue,
  releaseNonceQueue,
} from './nonce-queue.ts'
import { readSettlement } from './read-settlement.ts'
import { recordBatch } from './record-batch.ts'
import { recordRevertedBatch } from './record-reverted-batch.ts'
import { createSettlementRecorder } from './record-settlement.ts'
import {
  readRemoteSettlement,
  recordRemoteSettlement,
  recordSettlementAnswer,
  recordSettlementRequest,
} from './remote-settlement.ts'
import { renewBatch } from './renew-batch.ts'
import { renewReleased } from './renew-released.ts'
import { renewSettlement } from './renew-settlement.ts'

/** Creates the workers' store of settlements over one pool. */
export function createSettlementStore(pool: Pool): SettlementStore {
  return {
    recordSettlement: createSettlementRecorder(pool),
    recordBatch: (recordings, batch) => recordBatch(pool, recordings, batch),
    readEarlierSettlements: (job) => readEarlierSettlements(pool, job),
    adoptSettlement: (job, earlier) => adoptSettlement(pool, job, earlier),
    readSettlement: (job) => readSettlement(pool, job),
    renewSettlement: (job, renewal) => renewSettlement(pool, job, renewal),
    renewBatch: (renewals, batch) => renewBatch(pool, renewals, batch),
    abandonBatch: (batchId) => abandonBatch(pool, batchId),
    recordRevertedBatch: (transactionHash, gas) => recordRevertedBatch(pool, transactionHash, gas),
    completeJob: createJobCompleter(pool),
    failSettlement: (job, failure, debt) => failSettlement(pool, job, failure, debt),
    markForReview: (job, reason) => markForReview(pool, job, reason),
    recordUnknownSettlement: (settlement) => recordUnknownSettlement(pool, settlement),

    recordRemoteSettlement: (job, settlement) => recordRemoteSettlement(pool, job, settlement),
    readRemoteSettlement: (job) => readRemoteSettlement(pool, job),
    recordSettlementRequest: (job, settlementId) => recordSettlementRequest(pool, job, settlementId),
    recordSettlementAnswer: (job, settlementId, hash) => recordSettlementAnswer(pool, job, settlementId, hash),

    leaseNonceQueue: (account, leaseMs) => leaseNonceQueue(pool, account, leaseMs),
    releaseNonceQueue: (account) => releaseNonceQueue(pool, account),
    readNextAccountNonce: (account) => readNextAccountNonce(pool, account),
    readNonceQueue: (account, accountNonceCount) => readNonceQueue(pool, account, accountNonceCount),
    addReplacement: (replacedHash, replacement) => addReplacement(pool, replacedHash, replacement),
    abandonPermit: (hash) => abandonPermit(pool, hash),
    fillGap: (account, accountNonce, filler) => fillGap(pool, account, accountNonce, filler),

    findUnfinalBlocks: (finalizedNumber) => findUnfinalBlocks(pool, finalizedNumber),
    readUnfinal: (fromNumber, limit) => readUnfinal(pool, fromNumber, limit),
    readUnfinalRemote: (limit) => readUnfinalRemote(pool, limit),
    readFailed: (settledBy, fromNumber, limit) => readFailed(pool, settledBy, fromNumber, limit),
    judgeFailed: (settlementId, judgedAt) => judgeFailed(pool, settlementId, judgedAt),
    reopenSettlement: (settlementId, settledAt) => reopenSettlement(pool, settlementId, settledAt),
    markFinal: (blockHashes) => markFinal(pool, blockHashes),
    moveSettlement: (settlementId, to) => moveSettlement(pool, settlementId, to),
    renewReleased: (settlement, renewal) => renewReleased(pool, settlement, renewal),
    loseSettlement: (settlementId, reason, judged) => loseSettlement(pool, settlementId, reason, judged),
  }
}
