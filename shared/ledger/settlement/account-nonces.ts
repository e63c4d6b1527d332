import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import { MOST_UNMINED_NONCES, type SettlementAccount } from '#shared/payment/settlement-key.ts'
import type { Sql } from '../pool.ts'
import { readFirst } from '../read-rows.ts'

/**
 * The largest step by which an account nonce follows the chain. A key that is also used elsewhere is a few nonces ahead
 * of the ledger; a node that reports more is wrong, and following it would leave a nonce gap that blocks every later
 * settlement.
 */
export const LARGEST_NONCE_STEP = 1000

const NEXT_NONCE = `(CASE
  WHEN $3::numeric - account.next_account_nonce BETWEEN 0 AND $4 THEN $3::numeric ELSE account.next_account_nonce END)`
/** How many account nonces may be taken. `greatest` ignores a head that nobody has seen yet. */
const ROOM = `$6 + greatest(account.head_account_nonce, $3::numeric) - ${NEXT_NONCE}`

/** Thrown when a key has fewer account nonces left than were asked for, until the chain has mined some. */
export class NonceQueueFull extends Error {
  /** How many are left. */
  readonly room: number

  constructor(room: number) {
    super(`a settlement key has ${MOST_UNMINED_NONCES} unmined transactions`)
    this.room = room
  }
}

/** Runs `work`, and returns `full` when a key has fewer account nonces left than it needs. */
export async function unlessQueueFull<Result, Full>(full: Full, work: () => Promise<Result>): Promise<Result | Full> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof NonceQueueFull) return full
    throw error
  }
}

/**
 * Takes the next `count` account nonces of a key and returns the first. The account's row stays locked until the
 * transaction ends, so the next process to lock it also finds the transactions signed for them. `minimum` is the
 * chain's count: a key that was used elsewhere continues from there, never backwards and never far ahead. Throws
 * `NonceQueueFull` when more would be unmined than nodes hold, by this count and the one that the ledger has seen last.
 */
export async function takeAccountNonces(
  sql: Sql,
  { network, facilitator }: SettlementAccount,
  minimum: bigint,
  count: number,
): Promise<bigint> {
  const row = await readFirst<{ first: bigint }>(sql, {
    name: 'take_account_nonces',
    text: `INSERT INTO settlement_accounts AS account
       (network, facilitator, next_account_nonce, head_account_nonce)
     VALUES ($1, $2, $3::numeric + $5, $3::numeric)
     ON CONFLICT (network, facilitator)
       DO UPDATE SET next_account_nonce = $5 + ${NEXT_NONCE}
       WHERE ${ROOM} >= $5
     RETURNING next_account_nonce - $5 AS first`,
    values: [network, facilitator, minimum.toString(), LARGEST_NONCE_STEP, count, MOST_UNMINED_NONCES],
  })
  if (row) return row.first
  const full = await readFirst<{ room: number }>(sql, {
    name: 'read_nonce_room',
    text: `SELECT greatest(0, ${ROOM})::int AS room FROM settlement_accounts AS account
     WHERE network = $1 AND facilitator = $2 AND $5::int IS NOT NULL`,
    values: [network, facilitator, minimum.toString(), LARGEST_NONCE_STEP, count, MOST_UNMINED_NONCES],
  })
  throw new NonceQueueFull(full?.room ?? 0)
}

/** Stores a signed transaction; it may be sent only afterwards. One without a settlement only fills a nonce gap. */
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
  const { hash, raw } = transaction
  await sql.query({
    name: 'insert_transaction',
    text: `INSERT INTO settlement_transactions
       (hash, settlement_id, raw_transaction, network, facilitator, account_nonce)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    values: [hash, settlementId, raw, network, facilitator, accountNonce.toString()],
  })
}
