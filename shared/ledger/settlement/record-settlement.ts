import type { LeasedJob, StoredTransaction } from '#shared/jobs/job.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import { MOST_UNMINED_NONCES } from '#shared/payment/settlement-key.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { listed } from '../listed.ts'
import type { Pool, Sql } from '../pool.ts'
import { batch } from '../share-statements.ts'
import { inTransaction } from '../transaction.ts'
import { NonceQueueFull, takeAccountNonces } from './account-nonces.ts'
import { moveToSettling, outcomesOf, type RecordingOutcome } from './move-to-settling.ts'
import { togetherOrInHalves } from './together-or-in-halves.ts'

/** The charge of a settlement, and how its transaction is signed. */
interface NewSettlement {
  readonly chargeAmount: AtomicAmount
  readonly minimumAccountNonce: bigint
  sign(accountNonce: bigint): Promise<SignedTransaction>
  /** Ids of earlier settlements of this job that cannot charge the payer any more. */
  readonly lookedUp?: readonly string[]
}

interface Recording {
  readonly job: LeasedJob
  readonly settlement: NewSettlement
}

interface SignedRecording extends Recording {
  readonly settlementId: string
  readonly transaction: StoredTransaction
}

/**
 * Creates a function that moves generated → settling. It takes the account nonce under a row lock and stores the
 * transaction signed for it in the same database transaction, before anything is sent, so there are no nonce gaps and any
 * worker can send what was signed. Signing is computation, not network. A job is refused that has an earlier settlement
 * which is not in `lookedUp`: after a reorganization that one may have charged the payer.
 *
 * All settlements of a key take that lock in turn, so those that wait in one process take it as a batch: one by one,
 * each would hold it for four round trips, which limited throughput to 60 settlements a second.
 */
export function createSettlementRecorder(pool: Pool) {
  const recorders = new Map<string, ReturnType<typeof batch<Recording, RecordingOutcome>>>()
  const recorderOf = (account: string) => {
    const recorder =
      recorders.get(account) ??
      batch(
        togetherOrInHalves<Recording, RecordingOutcome>((recordings) => recordThatFit(pool, recordings)),
        MOST_UNMINED_NONCES,
      )
    recorders.set(account, recorder)
    return recorder
  }
  return (job: LeasedJob, settlement: NewSettlement): Promise<RecordingOutcome> => {
    const { network, facilitator } = job.authorization
    return recorderOf(`${network} ${facilitator}`)({ job, settlement })
  }
}

/** Records as many settlements of one key as it has account nonces left. */
async function recordThatFit(pool: Pool, recordings: readonly Recording[]): Promise<readonly RecordingOutcome[]> {
  try {
    return await recordTogether(pool, recordings)
  } catch (error) {
    if (!(error instanceof NonceQueueFull)) throw error
    const fitting = recordings.slice(0, error.room)
    const left = recordings.slice(error.room).map(() => 'queue_full' as const)
    return fitting.length === 0 ? left : [...(await recordThatFit(pool, fitting)), ...left]
  }
}

/** Records settlements of one key. */
async function recordTogether(pool: Pool, recordings: readonly Recording[]): Promise<readonly RecordingOutcome[]> {
  return await inTransaction(pool, async (sql) => {
    const claims = recordings.map(({ job, settlement }) => ({ job, lookedUp: settlement.lookedUp ?? [] }))
    const moved = await moveToSettling(sql, claims)
    const signed = await signNext(
      sql,
      recordings.filter(({ job }) => moved.has(job.id)),
    )
    await storeSigned(sql, signed)
    const settlementOf = new Map(
      signed.map(({ job, settlementId, transaction }) => [
        job.id,
        { settlementId, batch: null, transactions: [transaction] },
      ]),
    )
    return await outcomesOf(sql, claims, settlementOf)
  })
}

async function signNext(sql: Sql, recordings: readonly Recording[]): Promise<readonly SignedRecording[]> {
  const [first] = recordings
  if (!first) return []
  const minimumAccountNonce = recordings
    .map(({ settlement }) => settlement.minimumAccountNonce)
    .reduce((one, other) => (one > other ? one : other))
  const { facilitator: sender } = first.job.authorization
  const firstNonce = await takeAccountNonces(sql, first.job.authorization, minimumAccountNonce, recordings.length)
  const signed: SignedRecording[] = []
  for (const [index, { job, settlement }] of recordings.entries()) {
    const accountNonce = firstNonce + BigInt(index)
    const transaction = await settlement.sign(accountNonce)
    signed.push({ job, settlement, settlementId: newId(), transaction: { ...transaction, sender, accountNonce } })
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
       FROM ${listed('uuid', 'uuid', 'uuid', 'text', 'numeric', 'numeric', 'text', 'text')}
         AS new (id, job_id, authorization_id, payer, account_nonce, charge_amount, hash, raw)
     ), settlement AS (
       INSERT INTO settlements
         (id, job_id, authorization_id, payer, network, facilitator, account_nonce, charge_amount, state)
       SELECT id, job_id, authorization_id, payer, $9::text, $10::text, account_nonce, charge_amount, 'signed' FROM new)
     INSERT INTO settlement_transactions (hash, settlement_id, raw_transaction, network, facilitator, account_nonce)
     SELECT hash, id, raw, $9::text, $10::text, account_nonce FROM new`,
    values: [
      signed.map(({ settlementId }) => settlementId),
      signed.map(({ job }) => job.id),
      signed.map(({ job }) => job.authorizationId),
      signed.map(({ job }) => job.authorization.payer),
      signed.map(({ transaction }) => transaction.accountNonce.toString()),
      signed.map(({ settlement }) => settlement.chargeAmount.toString()),
      signed.map(({ transaction }) => transaction.hash),
      signed.map(({ transaction }) => transaction.raw),
      network,
      facilitator,
    ],
  })
}
