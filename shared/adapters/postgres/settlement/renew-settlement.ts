import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore, Written } from '#shared/jobs/job-store.ts'
import { holdJob, unlessStale } from '../execution/move-job.ts'
import type { Pool } from '../pool.ts'
import { insertTransaction, takeAccountNonces } from './account-nonces.ts'

type Renewal = Parameters<ExecutionStore['renewSettlement']>[1]

/**
 * settling, still: the settlement moves from an account nonce that somebody else used up to the next one, with a transaction
 * signed for it. Guarded by the job's fence and by the used nonce itself, so that it moves once. The dead transactions stay
 * stored: should the chain have been misread, Permit2's nonce lets only one of them move money, whichever it is.
 */
export async function renewSettlement(pool: Pool, job: ClaimedJob, renewal: Renewal): Promise<Written> {
  const { network, facilitator } = job.authorization
  const { settlementId, usedAccountNonce } = renewal
  return await unlessStale(pool, async (sql) => {
    await holdJob(sql, job, 'settling')
    const accountNonce = await takeAccountNonces(sql, { network, facilitator }, renewal.minimumAccountNonce, 1)
    const moved = await sql.query(
      `UPDATE settlements SET account_nonce = $3
       WHERE id = $1 AND authorization_id = $4 AND state = 'signed' AND account_nonce = $2`,
      [settlementId, usedAccountNonce.toString(), accountNonce.toString(), job.authorizationId],
    )
    if (moved.rowCount !== 1)
      throw new Error(`job ${job.id} has no open settlement ${settlementId} at account nonce ${usedAccountNonce}`)
    const transaction = await renewal.sign(accountNonce)
    await insertTransaction(sql, { network, facilitator, settlementId, accountNonce, transaction })
  })
}
