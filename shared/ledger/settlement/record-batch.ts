import type { LeasedJob } from '#shared/jobs/job.ts'
import type { PreparedCharge } from '#shared/payment/facilitator.ts'
import { newId } from '#shared/runtime/new-id.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { unlessQueueFull } from './account-nonces.ts'
import { moveToSettling, outcomesOf, type RecordingOutcome } from './move-to-settling.ts'
import { batchValues, INSERTED_BATCH, type NewBatch, type SignedBatch, signBatch } from './settlement-batches.ts'
import { togetherOrInHalves } from './together-or-in-halves.ts'

/** A job that is settled in a batch. */
export interface BatchRecording {
  readonly job: LeasedJob
  readonly charge: PreparedCharge
  /** Ids of earlier settlements of this job that cannot charge the payer any more. */
  readonly lookedUp?: readonly string[]
}

/**
 * Moves generated → settling. Takes one account nonce under a row lock and stores batch, settlements and the
 * transaction signed for it in one database transaction, so there are no nonce gaps and any worker can send what was
 * signed. Jobs that are stale or were settled before are left out; nothing is signed when none is left. Returns one
 * outcome for each, in their order. If one of them cannot be written, its outcome is the error, and the others are
 * recorded in smaller batches.
 */
export async function recordBatch(
  pool: Pool,
  recordings: readonly BatchRecording[],
  batch: NewBatch,
): Promise<readonly (RecordingOutcome | Error)[]> {
  if (recordings.length === 0) return []
  const record = togetherOrInHalves<BatchRecording, RecordingOutcome>((together) =>
    unlessQueueFull(
      together.map(() => 'queue_full' as const),
      () => recordTogether(pool, together, batch),
    ),
  )
  return await record(recordings)
}

async function recordTogether(
  pool: Pool,
  recordings: readonly BatchRecording[],
  batch: NewBatch,
): Promise<readonly RecordingOutcome[]> {
  return await inTransaction(pool, async (sql) => {
    const claims = recordings.map(({ job, lookedUp = [] }) => ({ job, lookedUp }))
    const moved = await moveToSettling(sql, claims)
    const recorded = recordings.filter(({ job }) => moved.has(job.id))
    return await outcomesOf(sql, claims, recorded.length === 0 ? new Map() : await store(sql, recorded, batch))
  })
}

/** Signs and stores the batch. Returns the settlements by their job's id. */
async function store(sql: Sql, recordings: readonly BatchRecording[], batch: NewBatch) {
  const signed = await signBatch(
    sql,
    batch,
    recordings.map(({ charge }) => charge),
  )
  const settlements = recordings.map((recording) => ({ ...recording, settlementId: newId() }))
  await insert(sql, batch, signed, settlements)
  const { id, size, transaction } = signed
  return new Map(
    settlements.map(({ job, settlementId }) => [
      job.id,
      { settlementId, batch: { id, size }, transactions: [transaction] },
    ]),
  )
}

async function insert(
  sql: Sql,
  batch: NewBatch,
  signed: SignedBatch,
  settlements: readonly (BatchRecording & { readonly settlementId: string })[],
): Promise<void> {
  await sql.query({
    name: 'insert_settlement_batch',
    text: `WITH ${INSERTED_BATCH}
     INSERT INTO settlements
       (id, job_id, authorization_id, payer, network, facilitator, account_nonce, charge_amount, state, batch_id)
     SELECT id, job_id, authorization_id, payer, $2::text, $3::text, $4::numeric, charge_amount, 'signed', $1::uuid
     FROM unnest((SELECT $9::uuid[]), (SELECT $10::uuid[]), (SELECT $11::uuid[]), (SELECT $12::text[]),
       (SELECT $13::numeric[]))
       AS new (id, job_id, authorization_id, payer, charge_amount)`,
    values: [
      ...batchValues(batch, signed),
      settlements.map(({ settlementId }) => settlementId),
      settlements.map(({ job }) => job.id),
      settlements.map(({ job }) => job.authorizationId),
      settlements.map(({ job }) => job.authorization.payer),
      settlements.map(({ charge }) => charge.chargeAmount.toString()),
    ],
  })
}
