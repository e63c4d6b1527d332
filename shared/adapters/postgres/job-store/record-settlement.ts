import { randomUUID } from 'node:crypto'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore, StoredSettlement, Written } from '#shared/jobs/job-store.ts'
import type { Pool, Sql } from '../pool.ts'
import { insertTransaction, takeAccountNonce } from './account-line.ts'
import { asTransition, moveJob } from './move-job.ts'

type Hex = `0x${string}`
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
    await insertTransaction(sql, { network, facilitator, settlementId, accountNonce, transaction })
  })
}

/** The settlement of the job's present authorization with every transaction signed for it, newest first. */
export async function readSettlement(sql: Sql, job: ClaimedJob): Promise<StoredSettlement> {
  const { rows } = await sql.query<{ id: string; hash: Hex; raw_transaction: Hex; account_nonce: string }>(
    `SELECT settlements.id, hash, raw_transaction, settlement_transactions.account_nonce
     FROM settlements JOIN settlement_transactions ON settlement_id = settlements.id
     WHERE authorization_id = $1 AND settlements.settled_by = 'own_key'
     ORDER BY settlement_transactions.account_nonce DESC, settlement_transactions.signed_at DESC`,
    [job.authorizationId],
  )
  const [newest] = rows
  if (!newest) throw new Error(`job ${job.id} is settling without a transaction signed by a key of ours`)
  return {
    settlementId: newest.id,
    transactions: rows.map(({ hash, raw_transaction, account_nonce }) => ({
      hash,
      raw: raw_transaction,
      accountNonce: BigInt(account_nonce),
    })),
  }
}
