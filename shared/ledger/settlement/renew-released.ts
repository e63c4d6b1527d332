import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { PreparedCharge } from '#shared/payment/facilitator.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { insertTransaction, takeAccountNonces, unlessQueueFull } from './account-nonces.ts'
import type { RemovedSettlement } from './finality.ts'
import { batchValues, INSERTED_BATCH, type NewBatch, signBatch } from './settlement-batches.ts'

type Hex = `0x${string}`

/** A charge whose result was released, and how its next transaction is signed. */
export interface ReleasedRenewal extends Omit<NewBatch, 'contract'> {
  /** `null` when the key settles directly. */
  readonly contract: Hex | null
  readonly charge: PreparedCharge
}

/**
 * Stays confirmed: signs a settlement that a reorganization removed, and whose transactions cannot be mined any more,
 * for another account nonce. Its job is completed and claimed by nobody, so the settlement's own row is the guard: of
 * several watchers, the first one moves it from the account nonce that all of them saw. Returns `null` when it is
 * final by now, when another process has done so, and while the key has too many unmined transactions: the watcher
 * comes again.
 */
export async function renewReleased(
  pool: Pool,
  { settlementId, transactions }: Pick<RemovedSettlement, 'settlementId' | 'transactions'>,
  renewal: ReleasedRenewal,
): Promise<StoredTransaction | null> {
  const [newest] = transactions
  if (!newest) return null
  const renew = async (sql: Sql) => {
    if (!(await lockReleased(sql, settlementId, newest))) return null
    const { contract, charge, ...batch } = renewal
    return contract === null
      ? await signAlone(sql, settlementId, renewal)
      : await signInBatch(sql, settlementId, charge, { ...batch, contract })
  }
  return await unlessQueueFull(null, () => inTransaction(pool, renew))
}

async function lockReleased(
  sql: Sql,
  settlementId: string,
  { sender, accountNonce }: StoredTransaction,
): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'lock_released_settlement',
    text: `SELECT 1 FROM settlements WHERE id = $1 AND state = 'confirmed' AND finalized_at IS NULL
       AND facilitator = $2 AND account_nonce = $3 FOR UPDATE`,
    values: [settlementId, sender, accountNonce.toString()],
  })
  return rowCount === 1
}

async function signAlone(
  sql: Sql,
  settlementId: string,
  { account, charge, minimumAccountNonce, sign }: ReleasedRenewal,
): Promise<StoredTransaction> {
  const accountNonce = await takeAccountNonces(sql, account, minimumAccountNonce, 1)
  const transaction = await sign([charge], accountNonce)
  await sql.query({
    name: 'renew_released_settlement',
    text: 'UPDATE settlements SET facilitator = $2, account_nonce = $3 WHERE id = $1',
    values: [settlementId, account.facilitator, accountNonce.toString()],
  })
  await insertTransaction(sql, { ...account, settlementId, accountNonce, transaction })
  return { ...transaction, sender: account.facilitator, accountNonce }
}

async function signInBatch(
  sql: Sql,
  settlementId: string,
  charge: PreparedCharge,
  batch: NewBatch,
): Promise<StoredTransaction> {
  const signed = await signBatch(sql, batch, [charge])
  await sql.query({
    name: 'renew_released_settlement_in_batch',
    text: `WITH ${INSERTED_BATCH}
     UPDATE settlements SET batch_id = $1::uuid, earlier_batches = array_append(earlier_batches, batch_id),
       facilitator = $3::text, account_nonce = $4::numeric WHERE id = $9::uuid`,
    values: [...batchValues(batch, signed), settlementId],
  })
  return signed.transaction
}
