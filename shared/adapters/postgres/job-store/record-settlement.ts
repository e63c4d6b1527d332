import { randomUUID } from 'node:crypto'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore, StoredSettlement, Written } from '#shared/jobs/job-store.ts'
import type { Pool, Sql } from '../pool.ts'
import { asTransition, moveJob } from './move-job.ts'

type NewSettlement = Parameters<ExecutionStore['recordSettlement']>[1]

/**
 * generated → settling. The account nonce is taken under a row lock and the signed transaction is stored with it, so
 * nonces have no gap: whatever was signed can be sent by anyone who reads the row. Signing is computation, not network.
 */
export async function recordSettlement(pool: Pool, job: ClaimedJob, settlement: NewSettlement): Promise<Written> {
  const { network, facilitator } = job.authorization
  return await asTransition(pool, async (sql) => {
    await moveJob(sql, job, 'settling')
    const accountNonce = await takeAccountNonce(sql, network, facilitator, settlement.minimumAccountNonce)
    const transaction = await settlement.sign(accountNonce)
    const settlementId = randomUUID()
    await sql.query(
      `INSERT INTO settlements
         (id, job_id, authorization_id, network, facilitator, account_nonce, charge_amount, state)
       VALUES ($1, $2, $3, $4, $5, $6, $7, 'signed')`,
      [
        settlementId,
        job.id,
        job.authorizationId,
        network,
        facilitator,
        accountNonce.toString(),
        settlement.chargeAmount.toString(),
      ],
    )
    await sql.query('INSERT INTO settlement_transactions (hash, settlement_id, raw_transaction) VALUES ($1, $2, $3)', [
      transaction.hash,
      settlementId,
      transaction.raw,
    ])
  })
}

/** `minimum` is the chain's own count: a key that was used elsewhere before starts from there. */
async function takeAccountNonce(sql: Sql, network: string, facilitator: string, minimum: bigint): Promise<bigint> {
  const { rows } = await sql.query<{ taken: string }>(
    `INSERT INTO settlement_accounts AS account (network, facilitator, next_account_nonce)
     VALUES ($1, $2, $3::numeric + 1)
     ON CONFLICT (network, facilitator)
       DO UPDATE SET next_account_nonce = GREATEST(account.next_account_nonce, $3::numeric) + 1
     RETURNING next_account_nonce - 1 AS taken`,
    [network, facilitator, minimum.toString()],
  )
  const [row] = rows
  if (!row) throw new Error('an upsert always returns its row')
  return BigInt(row.taken)
}

/** The settlement of the job's present authorization with every transaction signed for it, newest first. */
export async function readSettlement(sql: Sql, job: ClaimedJob): Promise<StoredSettlement> {
  const { rows } = await sql.query<{ id: string; hash: `0x${string}`; raw_transaction: `0x${string}` }>(
    `SELECT settlements.id, hash, raw_transaction
     FROM settlements JOIN settlement_transactions ON settlement_id = settlements.id
     WHERE authorization_id = $1 ORDER BY settlement_transactions.signed_at DESC`,
    [job.authorizationId],
  )
  const [newest] = rows
  if (!newest) throw new Error(`job ${job.id} is settling without a signed transaction`)
  return {
    settlementId: newest.id,
    transactions: rows.map(({ hash, raw_transaction }) => ({ hash, raw: raw_transaction })),
  }
}
