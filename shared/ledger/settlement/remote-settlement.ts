import type { LeasedJob, Written } from '#shared/jobs/job.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { moveJob } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { readFirst, writeFenced } from '../read-rows.ts'

type Hex = `0x${string}`

/** A settlement requested, or to be requested, from a remote facilitator. */
export interface RemoteSettlement {
  readonly settlementId: string
  readonly recordedBlock: bigint
  /** Transactions named by the facilitator, newest first. */
  readonly hashes: readonly Hex[]
  /** Number of requests whose outcome is unknown. */
  readonly unansweredRequests: number
  /** Time since the latest request, by the ledger's clock; `null` before the first one. */
  readonly sinceRequestMs: number | null
}

/**
 * Moves generated → settling: records the charge to request, before anything is requested. The constraint
 * `one_charge_per_job` rejects a second open settlement.
 */
export function recordRemoteSettlement(
  sql: Sql,
  job: LeasedJob,
  { chargeAmount, recordedBlock }: { readonly chargeAmount: AtomicAmount; readonly recordedBlock: bigint },
): Promise<Written> {
  const { network, facilitator, payer } = job.authorization
  return moveJob(sql, job, 'settling', (parameter) => ({
    name: 'record_remote_settlement',
    together: [
      `recorded AS (
         INSERT INTO settlements
           (id, job_id, authorization_id, payer, network, facilitator, charge_amount, state, settled_by, recorded_block)
         SELECT ${parameter(newId())}::uuid, id, ${parameter(job.authorizationId)}::uuid, ${parameter(payer)},
           ${parameter(network)}, ${parameter(facilitator)}, ${parameter(chargeAmount.toString())}::numeric, 'signed', 'remote_facilitator',
           ${parameter(recordedBlock.toString())}::numeric
         FROM moved)`,
    ],
  }))
}

/** Returns `null` when the job's settlement was signed with one of our own keys. */
export async function readRemoteSettlement(sql: Sql, job: LeasedJob): Promise<RemoteSettlement | null> {
  const settlement = await readFirst<RemoteSettlement>(sql, {
    name: 'read_remote_settlement',
    text: `SELECT id AS "settlementId", recorded_block AS "recordedBlock", unanswered_requests AS "unansweredRequests",
       (extract(epoch FROM clock_timestamp() - requested_at) * 1000)::float8 AS "sinceRequestMs",
       ARRAY(SELECT hash FROM settlement_transactions WHERE settlement_id = settlements.id ORDER BY signed_at DESC)
         AS hashes
     FROM settlements WHERE authorization_id = $1 AND settled_by = 'remote_facilitator'`,
    values: [job.authorizationId],
  })
  return settlement ?? null
}

/**
 * Stays settling: counts a request as unanswered, before it is sent. Returns `stale` after a lost fence: the request
 * must not be sent.
 */
export async function recordSettlementRequest(sql: Sql, job: LeasedJob, settlementId: string): Promise<Written> {
  return await writeFenced(sql, {
    name: 'record_settlement_request',
    text: `UPDATE settlements SET unanswered_requests = unanswered_requests + 1, requested_at = clock_timestamp()
     FROM jobs WHERE jobs.id = $1 AND jobs.fence = $2 AND jobs.state = 'settling'
       AND settlements.id = $3 AND settlements.authorization_id = jobs.authorization_id AND settlements.state = 'signed'`,
    values: [job.id, job.fence.toString(), settlementId],
  })
}

/**
 * Stays settling: counts the request as answered, with the transaction that the facilitator named, or with nothing
 * sent. A hash that already belongs to another settlement leaves the request unanswered, as it proves nothing about
 * this one; the result is `stale` then, as it is for a lost fence.
 */
export async function recordSettlementAnswer(
  sql: Sql,
  job: LeasedJob,
  settlementId: string,
  hash: `0x${string}` | null,
): Promise<Written> {
  return await writeFenced(sql, {
    name: 'record_settlement_answer',
    text: `WITH held AS (
       SELECT settlements.id, settlements.network, settlements.facilitator FROM settlements JOIN jobs USING (authorization_id)
       WHERE jobs.id = $1 AND jobs.fence = $2 AND jobs.state = 'settling' AND settlements.id = $3
     ), named AS (
       INSERT INTO settlement_transactions AS known (hash, settlement_id, settled_by, network, facilitator)
       SELECT $4::text, id, 'remote_facilitator', network, facilitator FROM held WHERE $4::text IS NOT NULL
       ON CONFLICT (hash) DO UPDATE SET hash = EXCLUDED.hash WHERE known.settlement_id = EXCLUDED.settlement_id
       RETURNING settlement_id
     )
     UPDATE settlements SET unanswered_requests = GREATEST(unanswered_requests - 1, 0)
     WHERE id IN (SELECT id FROM held) AND ($4::text IS NULL OR id IN (SELECT settlement_id FROM named))`,
    values: [job.id, job.fence.toString(), settlementId, hash],
  })
}
