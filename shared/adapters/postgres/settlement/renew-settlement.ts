import type { ClaimedJob, Written } from '#shared/jobs/job.ts'
import type { JobSettlementStore } from '#shared/jobs/settlement-store.ts'
import { inFencedTransaction, lockClaimedJob } from '../move-job.ts'
import type { Pool } from '../pool.ts'
import { insertTransaction, NonceQueueFull, takeAccountNonces } from './account-nonces.ts'

type Renewal = Parameters<JobSettlementStore['renewSettlement']>[1]

/**
 * Stays settling: moves the settlement from an account nonce that someone else used to the next one, and stores a
 * transaction signed for it. Guarded by the job's fence and by the used nonce, so that it moves once. The old
 * transactions stay stored: if the chain was misread, Permit2's nonce still lets only one of them move money.
 */
export async function renewSettlement(pool: Pool, job: ClaimedJob, renewal: Renewal): Promise<Written | 'queue_full'> {
  try {
    return await renew(pool, job, renewal)
  } catch (error) {
    if (error instanceof NonceQueueFull) return 'queue_full'
    throw error
  }
}

async function renew(pool: Pool, job: ClaimedJob, renewal: Renewal): Promise<Written> {
  const { network, facilitator } = job.authorization
  const { settlementId, usedAccountNonce } = renewal
  return await inFencedTransaction(pool, async (sql) => {
    await lockClaimedJob(sql, job, 'settling')
    const accountNonce = await takeAccountNonces(sql, { network, facilitator }, renewal.minimumAccountNonce, 1)
    const moved = await sql.query({
      name: 'renew_settlement',
      text: `UPDATE settlements SET account_nonce = $3
       WHERE id = $1 AND authorization_id = $4 AND state = 'signed' AND account_nonce = $2`,
      values: [settlementId, usedAccountNonce.toString(), accountNonce.toString(), job.authorizationId],
    })
    if (moved.rowCount !== 1)
      throw new Error(`job ${job.id} has no open settlement ${settlementId} at account nonce ${usedAccountNonce}`)
    const transaction = await renewal.sign(accountNonce)
    await insertTransaction(sql, { network, facilitator, settlementId, accountNonce, transaction })
  })
}
