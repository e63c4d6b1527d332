import type { Sql } from '../pool.ts'

/** A settlement that the ledger does not know and nobody has resolved. Times are ISO 8601. */
export interface OpenUnknownSettlement {
  readonly payer: string
  /** The Permit2 nonce, in decimal; with the payer, it identifies the settlement. */
  readonly nonce: string
  readonly amountAtomic: bigint
  readonly transaction: string
  readonly idempotencyKey: string | null
  readonly requestId: string | null
  readonly jobId: string | null
  readonly since: string
}

export interface UnknownSettlements {
  readonly count: number
  readonly totalAtomic: bigint
  readonly oldest: readonly OpenUnknownSettlement[]
}

const SHOWN_SETTLEMENTS = 100

/** Returns the settlements that callers or workers met and the ledger does not know, of any age, oldest first. */
export async function readUnknownSettlements(sql: Sql): Promise<UnknownSettlements> {
  const { rows } = await sql.query<
    Record<'payer' | 'nonce' | 'amount' | 'transaction_hash' | 'since' | 'all_total', string> &
      Record<'idempotency_key' | 'request_id' | 'job_id', string | null> & { all_count: number }
  >({
    name: 'read_unknown_settlements',
    text: `SELECT payer, nonce, amount, transaction_hash, idempotency_key, request_id, job_id,
       to_json(found_at) #>> '{}' AS since, count(*) OVER ()::int AS all_count, sum(amount) OVER () AS all_total
     FROM unknown_settlements WHERE resolved_at IS NULL ORDER BY found_at, payer, nonce LIMIT $1`,
    values: [SHOWN_SETTLEMENTS],
  })
  return {
    count: rows[0]?.all_count ?? 0,
    totalAtomic: BigInt(rows[0]?.all_total ?? 0),
    oldest: rows.map((row) => ({
      payer: row.payer,
      nonce: row.nonce,
      amountAtomic: BigInt(row.amount),
      transaction: row.transaction_hash,
      idempotencyKey: row.idempotency_key,
      requestId: row.request_id,
      jobId: row.job_id,
      since: row.since,
    })),
  }
}
