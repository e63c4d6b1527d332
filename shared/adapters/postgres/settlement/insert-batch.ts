import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { NewBatch } from '#shared/jobs/settlement-store.ts'
import type { PreparedCharge } from '#shared/payment/facilitator.ts'
import { newId } from '#shared/runtime/new-id.ts'
import type { Sql } from '../pool.ts'
import { takeAccountNonces } from './account-nonces.ts'

/** A batch whose transaction is signed but not stored. */
export interface SignedBatch {
  readonly id: string
  readonly size: number
  readonly transaction: StoredTransaction
}

/** Takes the next account nonce of the batch's key and signs its transaction: computation, not network. */
export async function signBatch(sql: Sql, batch: NewBatch, charges: readonly PreparedCharge[]): Promise<SignedBatch> {
  const accountNonce = await takeAccountNonces(sql, batch.account, batch.minimumAccountNonce, 1)
  const transaction = { ...(await batch.sign(charges, accountNonce)), sender: batch.account.facilitator, accountNonce }
  return { id: newId(), size: charges.length, transaction }
}

/**
 * Common table expressions that store a batch and its transaction, as the parameters `$1` to `$8`; the statement that
 * they belong to writes its settlements. `$1` is its id, `$2` to `$4` are network, key and account nonce.
 */
export const INSERTED_BATCH = `batch AS (
    INSERT INTO settlement_batches (id, network, facilitator, account_nonce, contract, size)
    VALUES ($1::uuid, $2::text, $3::text, $4::numeric, $5::text, $6::integer)
  ), signed AS (
    INSERT INTO settlement_transactions (hash, batch_id, raw_transaction, network, facilitator, account_nonce)
    VALUES ($7::text, $1::uuid, $8::text, $2::text, $3::text, $4::numeric))`

/** Returns the values of `INSERTED_BATCH`. */
export function batchValues({ account, contract }: NewBatch, { id, size, transaction }: SignedBatch): unknown[] {
  const { hash, raw, accountNonce } = transaction
  return [id, account.network, account.facilitator, accountNonce.toString(), contract, size, hash, raw]
}
