import type { SettlementAccount } from '#shared/jobs/settlement-store.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import type { Sql } from '../pool.ts'

/**
 * The largest step by which an account nonce follows the chain. A key that is also used elsewhere is a few nonces ahead
 * of the ledger; a node that reports more is wrong, and following it would leave a nonce gap that blocks every later
 * settlement.
 */
export const LARGEST_NONCE_STEP = 1000

/**
 * Takes the next `count` account nonces of a key and returns the first. The account's row stays locked until the
 * transaction ends, so the next process to lock it also finds the transactions signed for them. `minimum` is the
 * chain's count: a key that was used elsewhere continues from there, never backwards and never far ahead.
 */
export async function takeAccountNonces(
  sql: Sql,
  { network, facilitator }: SettlementAccount,
  minimum: bigint,
  count: number,
): Promise<bigint> {
  const { rows } = await sql.query<{ first: string }>({
    name: 'take_account_nonces',
    text: `INSERT INTO settlement_accounts AS account (network, facilitator, next_account_nonce)
     VALUES ($1, $2, $3::numeric + $5)
     ON CONFLICT (network, facilitator)
       DO UPDATE SET next_account_nonce = $5 + CASE
         WHEN $3::numeric - account.next_account_nonce BETWEEN 0 AND $4 THEN $3::numeric ELSE account.next_account_nonce END
     RETURNING next_account_nonce - $5 AS first`,
    values: [network, facilitator, minimum.toString(), LARGEST_NONCE_STEP, count],
  })
  const [row] = rows
  if (!row) throw new Error('an upsert always returns its row')
  return BigInt(row.first)
}

/**
 * Stores a signed transaction; it may be sent only afterwards. One without a settlement and without a sponsored permit
 * only fills a nonce gap.
 */
export async function insertTransaction(
  sql: Sql,
  signed: {
    network: string
    facilitator: string
    settlementId: string | null
    sponsoredPermitId?: string
    accountNonce: bigint
    transaction: SignedTransaction
  },
): Promise<void> {
  const { network, facilitator, settlementId, sponsoredPermitId = null, accountNonce, transaction } = signed
  const { hash, raw } = transaction
  await sql.query({
    name: 'insert_transaction',
    text: `INSERT INTO settlement_transactions
       (hash, settlement_id, raw_transaction, network, facilitator, account_nonce, sponsored_permit_id)
     VALUES ($1, $2, $3, $4, $5, $6, $7)`,
    values: [hash, settlementId, raw, network, facilitator, accountNonce.toString(), sponsoredPermitId],
  })
}
