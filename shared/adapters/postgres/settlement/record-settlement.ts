import { randomUUID } from 'node:crypto'
import type { ClaimedJob, StoredSettlement, StoredTransaction } from '#shared/jobs/job.ts'
import type { JobSettlementStore } from '#shared/jobs/settlement-store.ts'
import { isUnfinished, statesBefore } from '#shared/jobs/transitions.ts'
import { isConnectionFailure } from '../../connection-failure.ts'
import { batch } from '../batch.ts'
import { NOT_DEFERRED } from '../move-job.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { takeAccountNonces } from './account-nonces.ts'

type Hex = `0x${string}`
type NewSettlement = Parameters<JobSettlementStore['recordSettlement']>[1]

/** Other workers wait while a batch is signed; this many take tens of milliseconds. */
const MAXIMUM_BATCH = 64

interface Recording {
  readonly job: ClaimedJob
  readonly settlement: NewSettlement
}

type RecordingOutcome = StoredSettlement | 'stale' | 'settled_before'

interface SignedRecording extends Recording {
  readonly settlementId: string
  readonly transaction: StoredTransaction
}

/**
 * Moves generated → settling. Takes the account nonce under a row lock and stores the transaction signed for it in the
 * same database transaction, so there are no nonce gaps and any worker can send what was signed. Signing is
 * computation, not network.
 *
 * All settlements of a key take that lock in turn, so those that wait in one process take it as a batch: one by one,
 * each would hold it for four round trips, which limited throughput to 60 settlements a second.
 */
export function createSettlementRecorder(pool: Pool): JobSettlementStore['recordSettlement'] {
  const recorders = new Map<string, ReturnType<typeof batch<Recording, RecordingOutcome>>>()
  const recorderOf = (account: string) => {
    const recorder = recorders.get(account) ?? batch((recordings) => recordEach(pool, recordings), MAXIMUM_BATCH)
    recorders.set(account, recorder)
    return recorder
  }
  return (job, settlement) => {
    const { network, facilitator } = job.authorization
    // The minimum is the chain's count, read once per key, so it differs only around a key's first settlement.
    return recorderOf(`${network} ${facilitator} ${settlement.minimumAccountNonce}`)({ job, settlement })
  }
}

/** Records all together; if that fails, one by one, so that only those that cannot be signed or stored fail. */
async function recordEach(
  pool: Pool,
  recordings: readonly Recording[],
): Promise<readonly (RecordingOutcome | Error)[]> {
  try {
    return await recordTogether(pool, recordings)
  } catch (error) {
    if (recordings.length === 1 || isConnectionFailure(error)) throw error
  }
  const outcomes: (RecordingOutcome | Error)[] = []
  for (const recording of recordings) outcomes.push(...(await recordEach(pool, [recording]).catch(asOutcome)))
  return outcomes
}

function asOutcome(error: unknown): readonly Error[] {
  return [error instanceof Error ? error : new Error(String(error))]
}

/** Records settlements of one key with one minimum. */
async function recordTogether(pool: Pool, recordings: readonly Recording[]): Promise<readonly RecordingOutcome[]> {
  return await inTransaction(pool, async (sql) => {
    const moved = await moveToSettling(sql, recordings)
    const signed = await signNext(
      sql,
      recordings.filter(({ job }) => moved.has(job.id)),
    )
    await storeSigned(sql, signed)
    const settlementOf = new Map(
      signed.map(({ job, settlementId, transaction }) => [job.id, { settlementId, transactions: [transaction] }]),
    )
    const held = moved.size === recordings.length ? moved : await findSettledBefore(sql, recordings)
    return recordings.map(({ job }) => settlementOf.get(job.id) ?? (held.has(job.id) ? 'settled_before' : 'stale'))
  })
}

/** An earlier settlement of a job that was not looked up on chain. `$3` are the ids of those that were. */
const NOT_LOOKED_UP = `SELECT 1 FROM settlements
  WHERE settlements.job_id = jobs.id AND settlements.state IN ('reverted', 'surplus') AND settlements.id <> ALL($3::uuid[])`

/**
 * Moves several jobs with the guard of every transition, and only those that no earlier settlement may have charged.
 * Returns the ids of those that moved.
 */
async function moveToSettling(sql: Sql, recordings: readonly Recording[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ id: string }>({
    name: 'move_jobs_to_settling',
    text: `UPDATE jobs SET state = 'settling', ${NOT_DEFERRED}
     FROM unnest($1::uuid[], $2::bigint[]) AS mine (id, fence)
     WHERE jobs.id = mine.id AND jobs.fence = mine.fence AND state = ANY($4) AND NOT EXISTS (${NOT_LOOKED_UP})
     RETURNING jobs.id`,
    values: [...claimsOf(recordings), statesBefore('settling').filter(isUnfinished)],
  })
  return new Set(rows.map(({ id }) => id))
}

/** Returns the ids of jobs that are still claimed and did not move because of an earlier settlement. */
async function findSettledBefore(sql: Sql, recordings: readonly Recording[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ id: string }>({
    name: 'find_settled_before',
    text: `SELECT jobs.id FROM jobs JOIN unnest($1::uuid[], $2::bigint[]) AS mine (id, fence) USING (id, fence)
     WHERE state = 'generated' AND EXISTS (${NOT_LOOKED_UP})`,
    values: [...claimsOf(recordings)],
  })
  return new Set(rows.map(({ id }) => id))
}

function claimsOf(recordings: readonly Recording[]): readonly (readonly string[])[] {
  return [
    recordings.map(({ job }) => job.id),
    recordings.map(({ job }) => job.fence.toString()),
    recordings.flatMap(({ settlement }) => settlement.lookedUp ?? []),
  ]
}

async function signNext(sql: Sql, recordings: readonly Recording[]): Promise<readonly SignedRecording[]> {
  const [first] = recordings
  if (!first) return []
  const { minimumAccountNonce } = first.settlement
  const firstNonce = await takeAccountNonces(sql, first.job.authorization, minimumAccountNonce, recordings.length)
  const signed: SignedRecording[] = []
  for (const [index, { job, settlement }] of recordings.entries()) {
    const accountNonce = firstNonce + BigInt(index)
    const transaction = await settlement.sign(accountNonce)
    signed.push({ job, settlement, settlementId: randomUUID(), transaction: { ...transaction, accountNonce } })
  }
  return signed
}

async function storeSigned(sql: Sql, signed: readonly SignedRecording[]): Promise<void> {
  const [first] = signed
  if (!first) return
  const { network, facilitator } = first.job.authorization
  await sql.query({
    name: 'insert_signed_settlements',
    text: `WITH new AS (
       SELECT id, job_id, authorization_id, payer, account_nonce, charge_amount, hash, raw
       FROM unnest($3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::numeric[], $8::numeric[], $9::text[], $10::text[])
         AS new (id, job_id, authorization_id, payer, account_nonce, charge_amount, hash, raw)
     ), settlement AS (
       INSERT INTO settlements
         (id, job_id, authorization_id, payer, network, facilitator, account_nonce, charge_amount, state)
       SELECT id, job_id, authorization_id, payer, $1::text, $2::text, account_nonce, charge_amount, 'signed' FROM new)
     INSERT INTO settlement_transactions (hash, settlement_id, raw_transaction, network, facilitator, account_nonce)
     SELECT hash, id, raw, $1::text, $2::text, account_nonce FROM new`,
    values: [
      network,
      facilitator,
      signed.map(({ settlementId }) => settlementId),
      signed.map(({ job }) => job.id),
      signed.map(({ job }) => job.authorizationId),
      signed.map(({ job }) => job.authorization.payer),
      signed.map(({ transaction }) => transaction.accountNonce.toString()),
      signed.map(({ settlement }) => settlement.chargeAmount.toString()),
      signed.map(({ transaction }) => transaction.hash),
      signed.map(({ transaction }) => transaction.raw),
    ],
  })
}

/** Returns the settlement of the job's current authorization with every transaction signed for it, newest first. */
export async function readSettlement(sql: Sql, job: ClaimedJob): Promise<StoredSettlement> {
  const { rows } = await sql.query<{ id: string; hash: Hex; raw_transaction: Hex; account_nonce: string }>({
    name: 'read_settlement',
    text: `SELECT settlements.id, hash, raw_transaction, settlement_transactions.account_nonce
     FROM settlements JOIN settlement_transactions ON settlement_id = settlements.id
     WHERE authorization_id = $1 AND settlements.settled_by = 'own_key'
     ORDER BY settlement_transactions.account_nonce DESC, settlement_transactions.signed_at DESC`,
    values: [job.authorizationId],
  })
  const [newest] = rows
  if (!newest) throw new Error(`job ${job.id} is settling without a transaction signed by a local settlement key`)
  return {
    settlementId: newest.id,
    transactions: rows.map(({ hash, raw_transaction, account_nonce }) => ({
      hash,
      raw: raw_transaction,
      accountNonce: BigInt(account_nonce),
    })),
  }
}
