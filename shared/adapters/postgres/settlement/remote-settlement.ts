import { randomUUID } from 'node:crypto'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Written } from '#shared/jobs/job-store.ts'
import type {
  RemoteSettlement,
  RemoteSettlementStore,
  UnfinalRemoteSettlement,
} from '#shared/jobs/remote-settlement-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { storedAuthorizationSchema } from '#shared/payment/authorization.ts'
import { moveJob } from '../execution/move-job.ts'
import type { Pool, Sql } from '../pool.ts'

/** The workers' side of settlements by a remote facilitator, over one pool. */
export function createRemoteSettlementStore(pool: Pool): RemoteSettlementStore {
  return {
    recordRemoteSettlement: (job, settlement) => recordRemoteSettlement(pool, job, settlement),
    readRemoteSettlement: (job) => readRemoteSettlement(pool, job),
    noteSettlementRequest: (job, settlementId) => noteSettlementRequest(pool, job, settlementId),
    noteSettlementAnswer: (job, settlementId, hash) => noteSettlementAnswer(pool, job, settlementId, hash),
    readUnfinalRemote: (limit) => readUnfinalRemote(pool, limit),
  }
}

/** generated → settling, guarded by the fence; `one_charge_per_job` keeps it the only open settlement. */
function recordRemoteSettlement(
  sql: Sql,
  job: ClaimedJob,
  { chargeAmount, recordedBlock }: Parameters<RemoteSettlementStore['recordRemoteSettlement']>[1],
): Promise<Written> {
  const { network, facilitator, payer } = job.authorization
  return moveJob(sql, job, 'settling', (parameter) => ({
    together: [
      `recorded AS (
         INSERT INTO settlements
           (id, job_id, authorization_id, payer, network, facilitator, charge_amount, state, settled_by, recorded_block)
         SELECT ${parameter(randomUUID())}::uuid, id, ${parameter(job.authorizationId)}::uuid, ${parameter(payer)},
           ${parameter(network)}, ${parameter(facilitator)}, ${parameter(chargeAmount.toString())}::numeric, 'signed', 'remote_facilitator',
           ${parameter(recordedBlock.toString())}::numeric
         FROM moved)`,
    ],
  }))
}

async function readRemoteSettlement(sql: Sql, job: ClaimedJob): Promise<RemoteSettlement | null> {
  const { rows } = await sql.query<{
    id: string
    recorded_block: string
    unanswered_requests: number
    since_request_ms: number | null
    hashes: `0x${string}`[]
  }>(
    `SELECT id, recorded_block, unanswered_requests,
       (extract(epoch FROM clock_timestamp() - requested_at) * 1000)::float8 AS since_request_ms,
       ARRAY(SELECT hash FROM settlement_transactions WHERE settlement_id = settlements.id ORDER BY signed_at DESC)
         AS hashes
     FROM settlements WHERE authorization_id = $1 AND settled_by = 'remote_facilitator'`,
    [job.authorizationId],
  )
  const [row] = rows
  return row
    ? {
        settlementId: row.id,
        recordedBlock: BigInt(row.recorded_block),
        hashes: row.hashes,
        unansweredRequests: row.unanswered_requests,
        sinceRequestMs: row.since_request_ms,
      }
    : null
}

/** settling, and stays so. A worker that lost its fence must not ask any more. */
async function noteSettlementRequest(sql: Sql, job: ClaimedJob, settlementId: string): Promise<Written> {
  const { rowCount } = await sql.query(
    `UPDATE settlements SET unanswered_requests = unanswered_requests + 1, requested_at = clock_timestamp()
     FROM jobs WHERE jobs.id = $1 AND jobs.fence = $2 AND jobs.state = 'settling'
       AND settlements.id = $3 AND settlements.authorization_id = jobs.authorization_id AND settlements.state = 'signed'`,
    [job.id, job.fence.toString(), settlementId],
  )
  return rowCount === 1 ? 'written' : 'stale'
}

/**
 * settling, and stays so. A hash that stands for another settlement already leaves the request unanswered: it says nothing
 * about this one. `stale` then as well as for a lost fence; reading the row again tells.
 */
async function noteSettlementAnswer(
  sql: Sql,
  job: ClaimedJob,
  settlementId: string,
  hash: `0x${string}` | null,
): Promise<Written> {
  const { rowCount } = await sql.query(
    `WITH held AS (
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
    [job.id, job.fence.toString(), settlementId, hash],
  )
  return rowCount === 1 ? 'written' : 'stale'
}

async function readUnfinalRemote(sql: Sql, limit: number): Promise<readonly UnfinalRemoteSettlement[]> {
  const { rows } = await sql.query<{
    id: string
    job_id: string
    signed: unknown
    charge_amount: string
    recorded_block: string
    block_number: string
    block_hash: string | null
  }>(
    `SELECT settlements.id, settlements.job_id, signed, charge_amount, recorded_block, block_number, block_hash
     FROM settlements JOIN authorizations ON authorizations.id = authorization_id
     WHERE state = 'confirmed' AND finalized_at IS NULL AND settled_by = 'remote_facilitator'
     ORDER BY block_number DESC LIMIT $1`,
    [limit],
  )
  return rows.map((row) => ({
    settlementId: row.id,
    jobId: row.job_id,
    authorization: storedAuthorizationSchema.parse(row.signed),
    chargeAmount: atomicAmount(BigInt(row.charge_amount)),
    recordedBlock: BigInt(row.recorded_block),
    block: { number: BigInt(row.block_number), hash: row.block_hash },
  }))
}
