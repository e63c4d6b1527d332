import type { SettledAt, SettledBlock, UnfinalSettlement } from '#shared/jobs/settlement-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { storedAuthorizationSchema } from '#shared/payment/authorization.ts'
import type { Sql } from '../pool.ts'

type Hex = `0x${string}`

/**
 * A reorganisation replaces the newest blocks, and only a few new ones come between two looks: among this many there is a
 * replaced one, if any settlement was in one.
 */
const NEWEST_BLOCKS = 8
const FINAL_BLOCKS = 100

export async function findUnfinalBlocks(sql: Sql, finalizedNumber: bigint): Promise<readonly SettledBlock[]> {
  const { rows } = await sql.query<{ block_number: string; block_hash: string | null }>(
    `(SELECT DISTINCT block_number, block_hash FROM settlements
      WHERE state = 'confirmed' AND finalized_at IS NULL ORDER BY block_number DESC LIMIT $2)
     UNION
     (SELECT DISTINCT block_number, block_hash FROM settlements
      WHERE state = 'confirmed' AND finalized_at IS NULL AND block_number <= $1 ORDER BY block_number LIMIT $3)`,
    [finalizedNumber.toString(), NEWEST_BLOCKS, FINAL_BLOCKS],
  )
  return rows.map(({ block_number, block_hash }) => ({ number: BigInt(block_number), hash: block_hash }))
}

export async function readUnfinal(sql: Sql, fromNumber: bigint, limit: number): Promise<readonly UnfinalSettlement[]> {
  const { rows } = await sql.query<{
    id: string
    job_id: string
    signed: unknown
    charge_amount: string
    block_number: string
    block_hash: string | null
    transaction_hash: string
    transactions: readonly { hash: Hex; raw: Hex; account_nonce: string }[]
  }>(
    `SELECT settlements.id, settlements.job_id, signed, charge_amount, block_number, block_hash, transaction_hash,
       (SELECT json_agg(json_build_object('hash', hash, 'raw', raw_transaction, 'account_nonce', account_nonce::text)
          ORDER BY settlement_transactions.account_nonce DESC, settlement_transactions.signed_at DESC)
        FROM settlement_transactions WHERE settlement_id = settlements.id) AS transactions
     FROM settlements JOIN authorizations ON authorizations.id = authorization_id
     WHERE state = 'confirmed' AND finalized_at IS NULL AND block_number >= $1 AND settled_by = 'own_key'
     ORDER BY block_number, account_nonce LIMIT $2`,
    [fromNumber.toString(), limit],
  )
  return rows.map((row) => ({
    settlementId: row.id,
    jobId: row.job_id,
    authorization: storedAuthorizationSchema.parse(row.signed),
    chargeAmount: atomicAmount(BigInt(row.charge_amount)),
    block: { number: BigInt(row.block_number), hash: row.block_hash },
    transactionHash: row.transaction_hash,
    transactions: row.transactions.map(({ hash, raw, account_nonce }) => ({
      hash,
      raw,
      accountNonce: BigInt(account_nonce),
    })),
  }))
}

/** confirmed, final from now on. */
export async function markFinal(sql: Sql, blockHashes: readonly string[]): Promise<number> {
  if (blockHashes.length === 0) return 0
  const { rowCount } = await sql.query(
    `UPDATE settlements SET finalized_at = now()
     WHERE state = 'confirmed' AND finalized_at IS NULL AND block_hash = ANY($1)`,
    [blockHashes],
  )
  return rowCount ?? 0
}

/**
 * confirmed, in another block. Guarded by the state: what is final or lost stays as it is. Replays name the transaction that is
 * in the chain; the receipt is immutable and is served with the settlement beside it.
 */
export async function moveSettlement(
  sql: Sql,
  settlementId: string,
  { transactionHash, blockNumber, blockHash }: SettledAt,
): Promise<void> {
  await sql.query(
    `WITH moved AS (
       UPDATE settlements SET transaction_hash = $2, block_number = $3, block_hash = $4
       WHERE id = $1 AND state = 'confirmed' AND finalized_at IS NULL RETURNING job_id)
     UPDATE jobs SET payment_response = jsonb_set(payment_response, '{transaction}', to_jsonb($2::text))
     FROM moved WHERE jobs.id = moved.job_id AND payment_response->>'transaction' <> $2`,
    [settlementId, transactionHash, blockNumber.toString(), blockHash],
  )
}

/** confirmed → lost. The job is not touched: its result was released, and replays go on. */
export async function loseSettlement(sql: Sql, settlementId: string, reason: string): Promise<void> {
  await sql.query(
    `UPDATE settlements SET state = 'lost', failure_reason = $2
     WHERE id = $1 AND state = 'confirmed' AND finalized_at IS NULL`,
    [settlementId, reason],
  )
}
