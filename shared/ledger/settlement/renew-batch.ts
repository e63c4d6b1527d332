import type { LeasedJob, StoredSettlement } from '#shared/jobs/job.ts'
import type { PreparedCharge } from '#shared/payment/facilitator.ts'
import { listed } from '../listed.ts'
import type { Pool, Sql } from '../pool.ts'
import { readTransactions } from '../settlement-transactions.ts'
import { inTransaction } from '../transaction.ts'
import { unlessQueueFull } from './account-nonces.ts'
import { batchValues, INSERTED_BATCH, type NewBatch, signBatch } from './settlement-batches.ts'
import { togetherOrInHalves } from './together-or-in-halves.ts'

/** A settlement that moves from its batch to another one. */
export interface BatchRenewal {
  readonly job: LeasedJob
  readonly charge: PreparedCharge
  readonly settlementId: string
  readonly leavesBatch: string
}

type RenewalOutcome = StoredSettlement | 'stale' | 'queue_full'

/**
 * Stays settling: moves settlements from their batches, whose transactions can no longer settle them, to a new one of
 * another account nonce, and stores the transaction signed for it. Each is guarded by its job's fence and by the batch
 * that it leaves, so that it moves once; one that is not open in that batch is an error. The old transactions stay
 * stored: if the chain was misread, Permit2's nonce still lets only one of them move money. Errors as for
 * `recordBatch`.
 */
export async function renewBatch(
  pool: Pool,
  renewals: readonly BatchRenewal[],
  batch: NewBatch,
): Promise<readonly (RenewalOutcome | Error)[]> {
  if (renewals.length === 0) return []
  const renew = togetherOrInHalves<BatchRenewal, RenewalOutcome>((together) =>
    unlessQueueFull(
      together.map(() => 'queue_full' as const),
      () => renewTogether(pool, together, batch),
    ),
  )
  return await renew(renewals)
}

async function renewTogether(
  pool: Pool,
  renewals: readonly BatchRenewal[],
  batch: NewBatch,
): Promise<readonly (RenewalOutcome | Error)[]> {
  return await inTransaction(pool, async (sql) => {
    const claimed = await lockClaimed(sql, renewals)
    const held = renewals.filter(({ job }) => claimed.has(job.id))
    const leaving = await findOpen(sql, held)
    const open = held.filter(({ settlementId }) => leaving.has(settlementId))
    const moved = open.length === 0 ? new Map<string, StoredSettlement>() : await moveToBatch(sql, open, batch)
    return renewals.map(({ job, settlementId, leavesBatch }) => {
      if (!claimed.has(job.id)) return 'stale'
      return moved.get(job.id) ?? new Error(`job ${job.id} has no open settlement ${settlementId} in ${leavesBatch}`)
    })
  })
}

/** Locks the jobs that are settling under these claims, and returns their ids. */
async function lockClaimed(sql: Sql, renewals: readonly BatchRenewal[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ id: string }>({
    name: 'lock_jobs_of_batch',
    text: `SELECT jobs.id FROM jobs JOIN ${listed('uuid', 'bigint')} AS mine (id, fence) USING (id, fence)
     WHERE jobs.state = 'settling' ORDER BY jobs.id FOR UPDATE OF jobs`,
    values: [renewals.map(({ job }) => job.id), renewals.map(({ job }) => job.fence.toString())],
  })
  return new Set(rows.map(({ id }) => id))
}

/**
 * Returns the ids of the settlements that are open in the batch that they leave. A statement of its own: one that waited
 * for the locks would read them as they were before.
 */
async function findOpen(sql: Sql, renewals: readonly BatchRenewal[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ id: string }>({
    name: 'find_settlements_leaving_batch',
    text: `SELECT settlements.id FROM ${listed('uuid', 'uuid', 'uuid')} AS leaving (id, authorization_id, batch_id)
     JOIN settlements USING (id, authorization_id, batch_id) WHERE settlements.state = 'signed'`,
    values: [
      renewals.map(({ settlementId }) => settlementId),
      renewals.map(({ job }) => job.authorizationId),
      renewals.map(({ leavesBatch }) => leavesBatch),
    ],
  })
  return new Set(rows.map(({ id }) => id))
}

/** Signs and stores the new batch. Returns the settlements by their job's id. */
async function moveToBatch(
  sql: Sql,
  renewals: readonly BatchRenewal[],
  batch: NewBatch,
): Promise<ReadonlyMap<string, StoredSettlement>> {
  const signed = await signBatch(
    sql,
    batch,
    renewals.map(({ charge }) => charge),
  )
  const settlementIds = renewals.map(({ settlementId }) => settlementId)
  const { rowCount } = await sql.query({
    name: 'renew_settlement_batch',
    text: `WITH ${INSERTED_BATCH}
     UPDATE settlements SET batch_id = $1::uuid, earlier_batches = array_append(earlier_batches, batch_id),
       facilitator = $3::text, account_nonce = $4::numeric
     WHERE id = ANY($9::uuid[]) AND state = 'signed'`,
    values: [...batchValues(batch, signed), settlementIds],
  })
  if (rowCount !== renewals.length) throw new Error('a settlement was closed while it moved to another batch')
  const transactions = await readTransactions(sql, settlementIds)
  const { id, size } = signed
  return new Map(
    renewals.map(({ job, settlementId }) => [
      job.id,
      { settlementId, batch: { id, size }, transactions: transactions.get(settlementId) ?? [] },
    ]),
  )
}
