import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { GasSpent, PreparedCharge, SignedTransaction } from '#shared/payment/facilitator.ts'
import type { SettlementAccount } from '#shared/payment/settlement-key.ts'
import { newId } from '#shared/runtime/new-id.ts'
import type { Sql } from '../pool.ts'
import { takeAccountNonces } from './account-nonces.ts'

type Hex = `0x${string}`

/** The key that sends a batch, and how its transaction is signed. */
export interface NewBatch {
  readonly account: SettlementAccount
  /** The settlement contract, in lower case. */
  readonly contract: Hex
  readonly minimumAccountNonce: bigint
  /**
   * Called inside the database transaction, with those that are recorded: once, unless they cannot be written together.
   */
  sign(charges: readonly PreparedCharge[], accountNonce: bigint): Promise<SignedTransaction>
}

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

/**
 * Gives up a transaction that no node takes. It stays stored, and counts if it is mined after all; a filler is to use
 * up its account nonce first, and its payments are signed again.
 */
export async function abandonBatch(sql: Sql, batchId: string): Promise<void> {
  await sql.query({
    name: 'abandon_batch',
    text: 'UPDATE settlement_batches SET abandoned_at = now() WHERE id = $1 AND abandoned_at IS NULL',
    values: [batchId],
  })
}

/**
 * Stores once what a batch cost that reverted as a whole, by the hash of the transaction that was mined. Returns
 * whether this call stored it.
 */
export async function recordRevertedBatch(
  sql: Sql,
  transactionHash: string,
  { gasUsed, cost }: GasSpent,
): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'record_reverted_batch',
    text: `UPDATE settlement_batches SET reverted_at = now(), reverted_gas_used = $2, reverted_gas_cost = $3
     FROM settlement_transactions AS mined
     WHERE mined.hash = $1 AND settlement_batches.id = mined.batch_id AND reverted_at IS NULL`,
    values: [transactionHash, gasUsed.toString(), cost.toString()],
  })
  return rowCount === 1
}
