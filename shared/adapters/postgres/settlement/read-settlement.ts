import type { ClaimedJob, StoredSettlement } from '#shared/jobs/job.ts'
import type { Sql } from '../pool.ts'
import { NEWEST_FIRST, SIGNED_FOR_SETTLEMENT } from '../settlement-transactions.ts'

type Hex = `0x${string}`

interface SignedRow {
  readonly id: string
  readonly batch_id: string | null
  readonly size: number | null
  readonly hash: Hex
  readonly raw: Hex
  readonly sender: Hex
  readonly account_nonce: string
}

/** Returns the settlement of the job's current authorization with every transaction signed for it, newest first. */
export async function readSettlement(sql: Sql, job: ClaimedJob): Promise<StoredSettlement> {
  const { rows } = await sql.query<SignedRow>({
    name: 'read_settlement',
    text: `SELECT settlements.id, settlements.batch_id, settlement_batches.size, hash, raw_transaction AS raw,
       stored.facilitator AS sender, stored.account_nonce
     FROM settlements LEFT JOIN settlement_batches ON settlement_batches.id = settlements.batch_id,
       LATERAL ${SIGNED_FOR_SETTLEMENT} JOIN settlement_transactions AS stored USING (hash)
     WHERE authorization_id = $1 AND settlements.settled_by = 'own_key' ORDER BY ${NEWEST_FIRST}`,
    values: [job.authorizationId],
  })
  const [newest] = rows
  if (!newest) throw new Error(`job ${job.id} is settling without a transaction signed by a local settlement key`)
  const { id, batch_id, size } = newest
  return {
    settlementId: id,
    batch: batch_id === null || size === null ? null : { id: batch_id, size },
    transactions: rows.map(({ hash, raw, sender, account_nonce }) => ({
      hash,
      raw,
      sender,
      accountNonce: BigInt(account_nonce),
    })),
  }
}
