import type { LeasedJob, StoredSettlement, StoredTransaction, Written } from '#shared/jobs/job.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import { inFencedTransaction, lockLeasedJob } from '../move-job.ts'
import type { Pool, Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import { NEWEST_FIRST, SIGNED_FOR_SETTLEMENT } from '../settlement-transactions.ts'
import { insertTransaction, takeAccountNonces, unlessQueueFull } from './account-nonces.ts'
import { createJobCompleter } from './complete-job.ts'
import { adoptSettlement, readEarlierSettlements } from './earlier-settlements.ts'
import { failSettlement, markForReview } from './end-settlement.ts'
import { judgeFailed, readFailed, reopenSettlement } from './failed-settlements.ts'
import {
  findUnfinalBlocks,
  loseSettlement,
  markFinal,
  moveSettlement,
  readRemoved,
  readRemovedRemote,
  removeFromBlocks,
} from './finality.ts'
import {
  addReplacement,
  fillGap,
  leaseNonceQueue,
  readNextAccountNonce,
  readNonceQueue,
  releaseNonceQueue,
} from './nonce-queue.ts'
import { recordBatch } from './record-batch.ts'
import { createSettlementRecorder } from './record-settlement.ts'
import {
  readRemoteSettlement,
  recordRemoteSettlement,
  recordSettlementAnswer,
  recordSettlementRequest,
} from './remote-settlement.ts'
import { renewBatch } from './renew-batch.ts'
import { renewReleased } from './renew-released.ts'
import { abandonBatch, recordRevertedBatch } from './settlement-batches.ts'

/**
 * The workers' access to settlements: with our own keys, or through a remote facilitator. Every write of a job is
 * fenced by its claim. Writes to the nonce queue need no fence: a transaction added there shares its account nonce
 * with those it replaces, so at most one of them is ever mined. Settlements that a block decided are watched until it
 * is final; completed jobs stay completed.
 */
export type SettlementStore = ReturnType<typeof createSettlementStore>

/** Creates the workers' store of settlements over one pool. */
export function createSettlementStore(pool: Pool) {
  return {
    recordSettlement: createSettlementRecorder(pool),
    completeJob: createJobCompleter(pool),
    ...bindTo(pool, {
      recordBatch,
      readEarlierSettlements,
      adoptSettlement,
      readSettlement,
      renewSettlement,
      renewBatch,
    }),
    ...bindTo(pool, { abandonBatch, recordRevertedBatch, failSettlement, markForReview }),
    ...bindTo(pool, { recordRemoteSettlement, readRemoteSettlement, recordSettlementRequest, recordSettlementAnswer }),
    ...bindTo(pool, { leaseNonceQueue, releaseNonceQueue, readNextAccountNonce, readNonceQueue }),
    ...bindTo(pool, { addReplacement, fillGap }),
    ...bindTo(pool, { findUnfinalBlocks, readFailed, judgeFailed, reopenSettlement }),
    ...bindTo(pool, {
      markFinal,
      removeFromBlocks,
      readRemoved,
      readRemovedRemote,
      moveSettlement,
      renewReleased,
      loseSettlement,
    }),
  }
}

type SignedRow = StoredTransaction & {
  readonly settlementId: string
  readonly batchId: string | null
  readonly size: number | null
}

/** Returns the settlement of the job's current authorization with every transaction signed for it, newest first. */
async function readSettlement(sql: Sql, job: LeasedJob): Promise<StoredSettlement> {
  const rows = await readRows<SignedRow>(sql, {
    name: 'read_settlement',
    text: `SELECT settlements.id AS "settlementId", settlements.batch_id AS "batchId", settlement_batches.size, hash,
       raw_transaction AS raw, stored.facilitator AS sender, stored.account_nonce AS "accountNonce"
     FROM settlements LEFT JOIN settlement_batches ON settlement_batches.id = settlements.batch_id,
       LATERAL ${SIGNED_FOR_SETTLEMENT} JOIN settlement_transactions AS stored USING (hash)
     WHERE authorization_id = $1 AND settlements.settled_by = 'own_key' ORDER BY ${NEWEST_FIRST}`,
    values: [job.authorizationId],
  })
  const [newest] = rows
  if (!newest) throw new Error(`job ${job.id} is settling without a transaction signed by a local settlement key`)
  const { settlementId, batchId, size } = newest
  return {
    settlementId,
    batch: batchId === null || size === null ? null : { id: batchId, size },
    transactions: rows.map(({ hash, raw, sender, accountNonce }) => ({ hash, raw, sender, accountNonce })),
  }
}

interface Renewal {
  readonly settlementId: string
  readonly usedAccountNonce: bigint
  readonly minimumAccountNonce: bigint
  sign(accountNonce: bigint): Promise<SignedTransaction>
}

/**
 * Stays settling: moves the settlement from an account nonce that was used outside this ledger to the next one, and
 * stores a transaction signed for it. Guarded by the job's fence and by the used nonce, so that it moves once. The old
 * transactions stay stored: if the chain was misread, Permit2's nonce still lets only one of them move money.
 */
async function renewSettlement(pool: Pool, job: LeasedJob, renewal: Renewal): Promise<Written | 'queue_full'> {
  const { network, facilitator } = job.authorization
  const { settlementId, usedAccountNonce } = renewal
  const renew = async (sql: Sql) => {
    await lockLeasedJob(sql, job, 'settling')
    const accountNonce = await takeAccountNonces(sql, { network, facilitator }, renewal.minimumAccountNonce, 1)
    const moved = await sql.query({
      name: 'renew_settlement',
      text: `UPDATE settlements SET account_nonce = $3
       WHERE id = $1 AND authorization_id = $4 AND state = 'signed' AND account_nonce = $2`,
      values: [settlementId, usedAccountNonce.toString(), accountNonce.toString(), job.authorizationId],
    })
    if (moved.rowCount !== 1)
      throw new Error(`job ${job.id} has no open settlement ${settlementId} at account nonce ${usedAccountNonce}`)
    const transaction = await renewal.sign(accountNonce)
    await insertTransaction(sql, { network, facilitator, settlementId, accountNonce, transaction })
  }
  return await unlessQueueFull('queue_full', () => inFencedTransaction(pool, renew))
}
