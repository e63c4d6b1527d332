import type { Sql } from '../pool.ts'

/** Its transaction stays stored, and counts if it is mined after all; a filler is to use up its account nonce first. */
export async function abandonBatch(sql: Sql, batchId: string): Promise<void> {
  await sql.query({
    name: 'abandon_batch',
    text: 'UPDATE settlement_batches SET abandoned_at = now() WHERE id = $1 AND abandoned_at IS NULL',
    values: [batchId],
  })
}
