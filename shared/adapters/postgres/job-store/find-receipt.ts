import { type Receipt, receiptSchema } from '#shared/payment/receipt.ts'
import type { Sql } from '../pool.ts'

/** A receipt by its id; the caller has checked the token. */
export async function findReceipt(sql: Sql, receiptId: string): Promise<Receipt | null> {
  const { rows } = await sql.query<{ body: unknown }>('SELECT body FROM receipts WHERE id = $1', [receiptId])
  return rows[0] ? receiptSchema.parse(rows[0].body) : null
}
