import type { NonceQueue, SettlementAccount } from '#shared/jobs/settlement-store.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { insertTransaction, LARGEST_LEAP } from './account-nonces.ts'

type Hex = `0x${string}`

/** How much of a line one round looks at. */
const BATCH = 64
/** An account without anything in line is looked at this often, for nonces that somebody else uses. */
const IDLE_LOOK_SECONDS = 30

/** Takes the keeper's lease on an account whose line may hold something. */
export async function leaseNonceQueue(sql: Sql, account: SettlementAccount, leaseMs: number): Promise<boolean> {
  const { rowCount } = await sql.query(
    `UPDATE settlement_accounts SET kept_until = now() + make_interval(secs => $3 / 1000.0)
     WHERE network = $1 AND facilitator = $2 AND kept_until <= now()
       AND (head_account_nonce IS DISTINCT FROM next_account_nonce OR kept_until <= now() - make_interval(secs => $4))`,
    [account.network, account.facilitator, leaseMs, IDLE_LOOK_SECONDS],
  )
  return rowCount === 1
}

export async function releaseNonceQueue(sql: Sql, { network, facilitator }: SettlementAccount): Promise<void> {
  await sql.query('UPDATE settlement_accounts SET kept_until = now() WHERE network = $1 AND facilitator = $2', [
    network,
    facilitator,
  ])
}

export async function readNextAccountNonce(
  sql: Sql,
  { network, facilitator }: SettlementAccount,
): Promise<bigint | null> {
  const { rows } = await sql.query<{ next: string }>(
    'SELECT next_account_nonce AS next FROM settlement_accounts WHERE network = $1 AND facilitator = $2',
    [network, facilitator],
  )
  const [row] = rows
  return row ? BigInt(row.next) : null
}

/**
 * Nonces that the chain has used without us are not given out: `next_account_nonce` follows the count, never back and never
 * far ahead.
 */
export async function readNonceQueue(
  sql: Sql,
  { network, facilitator }: SettlementAccount,
  accountNonceCount: bigint,
): Promise<NonceQueue> {
  const count = accountNonceCount.toString()
  const { rows: heads } = await sql.query<{ next_account_nonce: string; head_age_ms: number; leap: string }>(
    `WITH previous AS (
       SELECT next_account_nonce AS next FROM settlement_accounts
       WHERE network = $1 AND facilitator = $2 FOR UPDATE)
     UPDATE settlement_accounts SET
       next_account_nonce = CASE
         WHEN $3::numeric - next_account_nonce BETWEEN 0 AND $4 THEN $3::numeric ELSE next_account_nonce END,
       head_since = CASE WHEN head_account_nonce IS DISTINCT FROM $3::numeric THEN now() ELSE head_since END,
       head_account_nonce = $3::numeric
     FROM previous WHERE network = $1 AND facilitator = $2
     RETURNING next_account_nonce, next_account_nonce - next AS leap,
       (extract(epoch FROM now() - head_since) * 1000)::float8 AS head_age_ms`,
    [network, facilitator, count, LARGEST_LEAP],
  )
  const [head] = heads
  if (!head) throw new Error(`the account ${facilitator} is not in the ledger`)
  const { rows } = await sql.query<{
    hash: Hex
    raw_transaction: Hex
    account_nonce: string
    age_ms: number
    is_given_up: boolean
  }>(
    `SELECT DISTINCT ON (signed.account_nonce) hash, raw_transaction, signed.account_nonce,
       (extract(epoch FROM now() - signed.signed_at) * 1000)::float8 AS age_ms, state IS NOT DISTINCT FROM 'reverted' AS is_given_up
     FROM settlement_transactions AS signed LEFT JOIN settlements ON settlements.id = settlement_id
     WHERE signed.network = $1 AND signed.facilitator = $2 AND signed.account_nonce >= $3
     ORDER BY signed.account_nonce, signed.signed_at DESC LIMIT $4`,
    [network, facilitator, count, BATCH],
  )
  const { rows: released } = await sql.query<SignedTransaction>(
    `SELECT hash, raw_transaction AS raw FROM settlement_transactions JOIN settlements ON settlements.id = settlement_id
     WHERE settlement_transactions.network = $1 AND settlement_transactions.facilitator = $2
       AND settlement_transactions.account_nonce = $3 AND hash = transaction_hash AND state = 'confirmed'`,
    [network, facilitator, count],
  )
  return {
    released: released[0] ?? null,
    headAgeMs: head.head_age_ms,
    nextAccountNonce: BigInt(head.next_account_nonce),
    usedElsewhere: Number(head.leap),
    transactions: rows.map(({ hash, raw_transaction, account_nonce, age_ms, is_given_up }) => ({
      hash,
      raw: raw_transaction,
      accountNonce: BigInt(account_nonce),
      ageMs: age_ms,
      isGivenUp: is_given_up,
    })),
  }
}

/** Stored before it is sent, like every transaction; the one that it replaces stays, since it may be mined all the same. */
export async function addReplacement(sql: Sql, replacedHash: Hex, { hash, raw }: SignedTransaction): Promise<void> {
  await sql.query(
    `INSERT INTO settlement_transactions (hash, settlement_id, raw_transaction, network, facilitator, account_nonce)
     SELECT $2, settlement_id, $3, network, facilitator, account_nonce FROM settlement_transactions WHERE hash = $1
     ON CONFLICT (hash) DO NOTHING`,
    [replacedHash, hash, raw],
  )
}

/** The account's row is locked first: whoever takes a nonce holds it until the signed transaction is stored. */
export async function fillGap(
  pool: Pool,
  { network, facilitator }: SettlementAccount,
  accountNonce: bigint,
  filler: SignedTransaction,
): Promise<boolean> {
  const nonce = accountNonce.toString()
  return await inTransaction(pool, async (sql) => {
    const taken = await sql.query(
      `SELECT 1 FROM settlement_accounts
       WHERE network = $1 AND facilitator = $2 AND next_account_nonce > $3 FOR UPDATE`,
      [network, facilitator, nonce],
    )
    if (taken.rowCount !== 1) return false
    const stored = await sql.query(
      `SELECT 1 FROM settlement_transactions AS signed LEFT JOIN settlements ON settlements.id = settlement_id
       WHERE signed.network = $1 AND signed.facilitator = $2 AND signed.account_nonce = $3
         AND state IS DISTINCT FROM 'reverted' LIMIT 1`,
      [network, facilitator, nonce],
    )
    if (stored.rowCount !== 0) return false
    await insertTransaction(sql, { network, facilitator, settlementId: null, accountNonce, transaction: filler })
    return true
  })
}
