import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { PastCall } from '#shared/operators/price-again.ts'
import type { Sql } from '../pool.ts'

interface Row {
  readonly id: string
  readonly accepted_at: Date
  readonly operation: string
  readonly public_model: string
  readonly terms: JsonValue
  readonly usage: JsonValue | null
  readonly quoted_maximum: string
  readonly charge_amount: string | null
}

/** Reads the last calls, newest first, without those among them whose terms are archived. */
export async function readLastCalls(sql: Sql, limit: number): Promise<readonly PastCall[]> {
  const { rows } = await sql.query<Row>({
    name: 'read_last_calls',
    text: `SELECT id, accepted_at, operation, public_model, terms, usage, quoted_maximum, charge_amount
           FROM (
             SELECT id, accepted_at, operation, public_model, terms, usage, quoted_maximum, charge_amount
             FROM jobs ORDER BY accepted_at DESC, id DESC LIMIT $1) AS last WHERE terms <> '{}'
           ORDER BY accepted_at DESC, id DESC`,
    values: [limit],
  })
  return rows.map((row) => ({
    jobId: row.id,
    acceptedAt: row.accepted_at,
    operation: row.operation,
    model: row.public_model,
    terms: row.terms,
    usage: row.usage,
    quotedMaximum: atomicAmount(BigInt(row.quoted_maximum)),
    charge: row.charge_amount === null ? null : atomicAmount(BigInt(row.charge_amount)),
  }))
}
