import type { SettlementAccount } from '#shared/jobs/settlement-store.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import type { Sql } from '../pool.ts'

/**
 * A key that somebody else uses as well is ahead of the ledger by a few account nonces. A node that tells of more is wrong, and
 * following it would leave a gap that nothing is mined behind.
 */
export const LARGEST_LEAP = 1000

/**
 * Takes the next `count` account nonces of a key and gives the first; its row stays locked until the transaction ends, so that
 * whoever waits for it finds the signed transactions beside the nonces. `minimum` is the chain's own count: a key that was used
 * elsewhere goes on from there, never back and never far ahead.
 */
export async function takeAccountNonces(
  sql: Sql,
  { network, facilitator }: SettlementAccount,
  minimum: bigint,
  count: number,
): Promise<bigint> {
  const { rows } = await sql.query<{ first: string }>(
    `INSERT INTO settlement_accounts AS account (network, facilitator, next_account_nonce)
     VALUES ($1, $2, $3::numeric + $5)
     ON CONFLICT (network, facilitator)
       DO UPDATE SET next_account_nonce = $5 + CASE
         WHEN $3::numeric - account.next_account_nonce BETWEEN 0 AND $4 THEN $3::numeric ELSE account.next_account_nonce END
     RETURNING next_account_nonce - $5 AS first`,
    [network, facilitator, minimum.toString(), LARGEST_LEAP, count],
  )
  const [row] = rows
  if (!row) throw new Error('an upsert always returns its row')
  return BigInt(row.first)
}

/** Stores a signed transaction, which must happen before anyone sends it. `settlementId` is `null` for one that fills a gap. */
export async function insertTransaction(
  sql: Sql,
  signed: {
    network: string
    facilitator: string
    settlementId: string | null
    accountNonce: bigint
    transaction: SignedTransaction
  },
): Promise<void> {
  const { network, facilitator, settlementId, accountNonce, transaction } = signed
  await sql.query(
    `INSERT INTO settlement_transactions (hash, settlement_id, raw_transaction, network, facilitator, account_nonce)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    [transaction.hash, settlementId, transaction.raw, network, facilitator, accountNonce.toString()],
  )
}
