import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import type { SettlementAccount } from '#shared/payment/settlement-key.ts'
import type { Pool, Sql } from '../pool.ts'
import { readFirst, readRows } from '../read-rows.ts'
import { inTransaction } from '../transaction.ts'
import { COMMITTED_EARLY } from '../without-waiting.ts'
import { insertTransaction, LARGEST_NONCE_STEP } from './account-nonces.ts'

type Hex = `0x${string}`

/** The newest transaction of one account nonce. */
export interface QueuedTransaction extends StoredTransaction {
  readonly ageMs: number
  /** Whether its settlement has failed: the payer was notified, so the transaction must not be mined. */
  readonly isAbandoned: boolean
}

/** The unmined transactions of an account, starting at the next account nonce on chain. */
export interface NonceQueue {
  /** How long the ledger has known that nonce to be the next one. */
  readonly headAgeMs: number
  /** The first account nonce that is not taken; the queue is empty when the chain's next nonce equals it. */
  readonly nextAccountNonce: bigint
  /**
   * Number of account nonces newly found used on chain that this ledger did not take: someone else sends with the key.
   */
  readonly usedElsewhere: number
  /** In order of account nonce, at most one batch. */
  readonly transactions: readonly QueuedTransaction[]
  /** By account nonce, the transactions that a receipt names, if a reorganization took them off the chain. */
  readonly released: ReadonlyMap<bigint, SignedTransaction>
}

/** Account nonces read by one round. */
const BATCH = 64
/** How often an empty queue is read, to notice nonces used elsewhere. */
const IDLE_POLL_SECONDS = 30

/**
 * Whether a batch must not be mined: it is abandoned, or all settlements in it have failed. One that has only failed in
 * part goes on, since what failed cannot succeed in it either. A batch that a receipt names was mined before, so its
 * transaction goes back to the chain whatever became of the batch. `OFFSET 0` keeps the planner from hashing whole tables.
 */
const IS_BATCH_ABANDONED = `(signed.batch_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM settlements AS charged WHERE charged.transaction_hash = hash AND charged.state = 'confirmed'
    OFFSET 0)
  AND (batches.abandoned_at IS NOT NULL OR NOT EXISTS (
    SELECT FROM settlements AS other WHERE other.batch_id = signed.batch_id AND other.state <> 'reverted' OFFSET 0)))`
/** Whether a signed transaction must not be mined: its settlement or its batch has failed. */
const IS_ABANDONED = `(settlements.state IS NOT DISTINCT FROM 'reverted' OR ${IS_BATCH_ABANDONED})`
const SIGNED = `settlement_transactions AS signed LEFT JOIN settlements ON settlements.id = settlement_id
  LEFT JOIN settlement_batches AS batches ON batches.id = signed.batch_id`

/**
 * Takes the lease on an account's queue when it may contain transactions, or when an empty one is due for a poll;
 * `false` while another process has it, or when there is nothing to do yet.
 */
export async function leaseNonceQueue(sql: Sql, account: SettlementAccount, leaseMs: number): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'lease_nonce_queue',
    text: `WITH ${COMMITTED_EARLY}
     UPDATE settlement_accounts SET kept_until = now() + make_interval(secs => $3 / 1000.0) FROM committed_early
     WHERE network = $1 AND facilitator = $2 AND kept_until <= now()
       AND (head_account_nonce IS DISTINCT FROM next_account_nonce OR kept_until <= now() - make_interval(secs => $4))`,
    values: [account.network, account.facilitator, leaseMs, IDLE_POLL_SECONDS],
  })
  return rowCount === 1
}

export async function releaseNonceQueue(sql: Sql, { network, facilitator }: SettlementAccount): Promise<void> {
  await sql.query({
    name: 'release_nonce_queue',
    text: `WITH ${COMMITTED_EARLY}
     UPDATE settlement_accounts SET kept_until = now() FROM committed_early WHERE network = $1 AND facilitator = $2`,
    values: [network, facilitator],
  })
}

/** Returns the first account nonce that is not taken; `null` for a key that this ledger never settled with. */
export async function readNextAccountNonce(
  sql: Sql,
  { network, facilitator }: SettlementAccount,
): Promise<bigint | null> {
  const row = await readFirst<{ next: bigint }>(sql, {
    name: 'read_next_account_nonce',
    text: 'SELECT next_account_nonce AS next FROM settlement_accounts WHERE network = $1 AND facilitator = $2',
    values: [network, facilitator],
  })
  return row?.next ?? null
}

/**
 * Stores the chain's count and reads the queue behind it. `next_account_nonce` follows the count past nonces used
 * elsewhere, never backwards and never far ahead.
 */
export async function readNonceQueue(
  sql: Sql,
  { network, facilitator }: SettlementAccount,
  accountNonceCount: bigint,
): Promise<NonceQueue> {
  const count = accountNonceCount.toString()
  const head = await readFirst<{ nextAccountNonce: bigint; headAgeMs: number; usedElsewhere: bigint }>(sql, {
    name: 'record_nonce_count',
    text: `WITH ${COMMITTED_EARLY}, previous AS (
       SELECT next_account_nonce AS next FROM settlement_accounts
       WHERE network = $1 AND facilitator = $2 FOR UPDATE)
     UPDATE settlement_accounts SET
       next_account_nonce = CASE
         WHEN $3::numeric - next_account_nonce BETWEEN 0 AND $4 THEN $3::numeric ELSE next_account_nonce END,
       head_since = CASE WHEN head_account_nonce = $3::numeric THEN coalesce(head_since, now()) ELSE now() END,
       head_account_nonce = $3::numeric
     FROM previous, committed_early WHERE network = $1 AND facilitator = $2
     RETURNING next_account_nonce AS "nextAccountNonce", next_account_nonce - next AS "usedElsewhere",
       (extract(epoch FROM now() - head_since) * 1000)::float8 AS "headAgeMs"`,
    values: [network, facilitator, count, LARGEST_NONCE_STEP],
  })
  if (!head) throw new Error(`the account ${facilitator} is not in the ledger`)
  const transactions = await readRows<QueuedTransaction>(sql, {
    name: 'read_nonce_queue',
    text: `SELECT DISTINCT ON (signed.account_nonce) hash, raw_transaction AS raw, signed.facilitator AS sender,
       signed.account_nonce AS "accountNonce",
       (extract(epoch FROM now() - signed.signed_at) * 1000)::float8 AS "ageMs", ${IS_ABANDONED} AS "isAbandoned"
     FROM ${SIGNED}
     WHERE signed.network = $1 AND signed.facilitator = $2 AND signed.account_nonce >= $3
     ORDER BY signed.account_nonce, signed.signed_at DESC LIMIT $4`,
    values: [network, facilitator, count, BATCH],
  })
  const released = await readRows<SignedTransaction & { accountNonce: bigint }>(sql, {
    name: 'read_released_transactions',
    text: `SELECT hash, raw_transaction AS raw, account_nonce AS "accountNonce" FROM settlement_transactions AS signed
     WHERE network = $1 AND facilitator = $2 AND account_nonce >= $3 AND account_nonce < $3::numeric + $4 AND EXISTS (
       SELECT FROM settlements WHERE transaction_hash = hash AND state = 'confirmed')`,
    values: [network, facilitator, count, BATCH],
  })
  return {
    ...head,
    usedElsewhere: Number(head.usedElsewhere),
    released: new Map(released.map(({ accountNonce, ...signed }) => [accountNonce, signed])),
    transactions,
  }
}

/**
 * Stores a replacement for the same settlement and account nonce, before it is sent; the replaced transaction stays,
 * since it may still be mined.
 */
export async function addReplacement(sql: Sql, replacedHash: Hex, { hash, raw }: SignedTransaction): Promise<void> {
  await sql.query({
    name: 'add_replacement',
    text: `INSERT INTO settlement_transactions
       (hash, settlement_id, raw_transaction, network, facilitator, account_nonce, batch_id)
     SELECT $2, settlement_id, $3, network, facilitator, account_nonce, batch_id
     FROM settlement_transactions WHERE hash = $1
     ON CONFLICT (hash) DO NOTHING`,
    values: [replacedHash, hash, raw],
  })
}

/**
 * Stores a filler for an account nonce without a usable transaction; returns `false` when the nonce has one after all.
 * Locks the account's row first: a process that takes a nonce holds that lock until the signed transaction is stored.
 */
export async function fillGap(
  pool: Pool,
  { network, facilitator }: SettlementAccount,
  accountNonce: bigint,
  filler: SignedTransaction,
): Promise<boolean> {
  const nonce = accountNonce.toString()
  return await inTransaction(pool, async (sql) => {
    const locked = await sql.query({
      name: 'lock_account_for_gap',
      text: `SELECT 1 FROM settlement_accounts
       WHERE network = $1 AND facilitator = $2 AND next_account_nonce > $3 FOR UPDATE`,
      values: [network, facilitator, nonce],
    })
    if (locked.rowCount !== 1) return false
    const usable = await sql.query({
      name: 'find_usable_transaction',
      text: `SELECT 1 FROM ${SIGNED}
       WHERE signed.network = $1 AND signed.facilitator = $2 AND signed.account_nonce = $3
         AND NOT ${IS_ABANDONED} LIMIT 1`,
      values: [network, facilitator, nonce],
    })
    if (usable.rowCount !== 0) return false
    await insertTransaction(sql, { network, facilitator, settlementId: null, accountNonce, transaction: filler })
    return true
  })
}
