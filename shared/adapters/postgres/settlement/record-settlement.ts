import { randomUUID } from 'node:crypto'
import type { ClaimedJob, StoredSettlement, StoredTransaction } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import { isUnfinished, statesBefore } from '#shared/jobs/transitions.ts'
import { batch } from '../batch.ts'
import { isConnectionFailure } from '../connection-failure.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { takeAccountNonces } from './account-nonces.ts'

type Hex = `0x${string}`
type NewSettlement = Parameters<ExecutionStore['recordSettlement']>[1]

/** Signing that many takes some tens of milliseconds, for which other workers wait. */
const MOST_AT_ONCE = 64

interface Recording {
  readonly job: ClaimedJob
  readonly settlement: NewSettlement
}

type RecordingOutcome = StoredSettlement | 'stale'

interface SignedRecording extends Recording {
  readonly settlementId: string
  readonly transaction: StoredTransaction
}

/**
 * generated → settling. The account nonce is taken under a row lock and the signed transaction is stored with it, so
 * nonces have no gap: whatever was signed can be sent by anyone who reads the row. Signing is computation, not network.
 *
 * All settlements of a key pass that lock one after the other, so those of one process that wait for it take it together: alone
 * each of them would hold it for four ways to PostgreSQL and back, which bounded everything at 60 settlements a second.
 */
export function createSettlementRecorder(pool: Pool): ExecutionStore['recordSettlement'] {
  const recorders = new Map<string, ReturnType<typeof batch<Recording, RecordingOutcome>>>()
  const recorderOf = (line: string) => {
    const recorder = recorders.get(line) ?? batch((recordings) => recordEach(pool, recordings), MOST_AT_ONCE)
    recorders.set(line, recorder)
    return recorder
  }
  return (job, settlement) => {
    const { network, facilitator } = job.authorization
    // Minimums differ only before the first settlement of a key, whose count the chain is asked for once.
    return recorderOf(`${network} ${facilitator} ${settlement.minimumAccountNonce}`)({ job, settlement })
  }
}

/** Together if that can be done; else each alone, so that one which cannot be signed or stored fails by itself. */
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

/** All of one key, and with one minimum. */
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
    return recordings.map(({ job }) => settlementOf.get(job.id) ?? 'stale')
  })
}

/** The guard of every transition, for several jobs. */
async function moveToSettling(sql: Sql, recordings: readonly Recording[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ id: string }>(
    `UPDATE jobs SET state = 'settling' FROM unnest($1::uuid[], $2::bigint[]) AS mine (id, fence)
     WHERE jobs.id = mine.id AND jobs.fence = mine.fence AND state = ANY($3) RETURNING jobs.id`,
    [
      recordings.map(({ job }) => job.id),
      recordings.map(({ job }) => job.fence.toString()),
      statesBefore('settling').filter(isUnfinished),
    ],
  )
  return new Set(rows.map(({ id }) => id))
}

async function signNext(sql: Sql, recordings: readonly Recording[]): Promise<readonly SignedRecording[]> {
  const [any] = recordings
  if (!any) return []
  const { minimumAccountNonce } = any.settlement
  const first = await takeAccountNonces(sql, any.job.authorization, minimumAccountNonce, recordings.length)
  const signed: SignedRecording[] = []
  for (const [index, { job, settlement }] of recordings.entries()) {
    const accountNonce = first + BigInt(index)
    const transaction = await settlement.sign(accountNonce)
    signed.push({ job, settlement, settlementId: randomUUID(), transaction: { ...transaction, accountNonce } })
  }
  return signed
}

async function storeSigned(sql: Sql, signed: readonly SignedRecording[]): Promise<void> {
  const [any] = signed
  if (!any) return
  const { network, facilitator } = any.job.authorization
  await sql.query(
    `WITH new AS (
       SELECT id, job_id, authorization_id, payer, account_nonce, charge_amount, hash, raw
       FROM unnest($3::uuid[], $4::uuid[], $5::uuid[], $6::text[], $7::numeric[], $8::numeric[], $9::text[], $10::text[])
         AS new (id, job_id, authorization_id, payer, account_nonce, charge_amount, hash, raw)
     ), settlement AS (
       INSERT INTO settlements
         (id, job_id, authorization_id, payer, network, facilitator, account_nonce, charge_amount, state)
       SELECT id, job_id, authorization_id, payer, $1::text, $2::text, account_nonce, charge_amount, 'signed' FROM new)
     INSERT INTO settlement_transactions (hash, settlement_id, raw_transaction, network, facilitator, account_nonce)
     SELECT hash, id, raw, $1::text, $2::text, account_nonce FROM new`,
    [
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
  )
}

/** The settlement of the job's present authorization with every transaction signed for it, newest first. */
export async function readSettlement(sql: Sql, job: ClaimedJob): Promise<StoredSettlement> {
  const { rows } = await sql.query<{ id: string; hash: Hex; raw_transaction: Hex; account_nonce: string }>(
    `SELECT settlements.id, hash, raw_transaction, settlement_transactions.account_nonce
     FROM settlements JOIN settlement_transactions ON settlement_id = settlements.id
     WHERE authorization_id = $1 AND settlements.settled_by = 'own_key'
     ORDER BY settlement_transactions.account_nonce DESC, settlement_transactions.signed_at DESC`,
    [job.authorizationId],
  )
  const [newest] = rows
  if (!newest) throw new Error(`job ${job.id} is settling without a transaction signed by a key of ours`)
  return {
    settlementId: newest.id,
    transactions: rows.map(({ hash, raw_transaction, account_nonce }) => ({
      hash,
      raw: raw_transaction,
      accountNonce: BigInt(account_nonce),
    })),
  }
}
