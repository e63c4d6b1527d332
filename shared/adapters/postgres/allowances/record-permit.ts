import type { AllowanceWorkStore, ClaimedPermit, SignedPermit } from '#shared/jobs/allowance-store.ts'
import type { Pool } from '../pool.ts'
import { insertTransaction, NonceQueueFull, takeAccountNonces } from '../settlement/account-nonces.ts'
import { inTransaction } from '../transaction.ts'

type Signing = Parameters<AllowanceWorkStore['recordPermit']>[1]

/**
 * Moves requested → signed. The account nonce comes from the nonce queue of settlements, and the transaction signed for
 * it is stored in the same database transaction, so there are no nonce gaps and any worker can send what was signed.
 */
export async function recordPermit(
  pool: Pool,
  claim: ClaimedPermit,
  signing: Signing,
): Promise<SignedPermit | 'stale' | 'queue_full'> {
  try {
    return await record(pool, claim, signing)
  } catch (error) {
    if (error instanceof NonceQueueFull) return 'queue_full'
    throw error
  }
}

async function record(pool: Pool, claim: ClaimedPermit, signing: Signing): Promise<SignedPermit | 'stale'> {
  const { allowanceId, fence } = claim
  const { account, minimumAccountNonce } = signing
  return await inTransaction(pool, async (sql) => {
    const locked = await sql.query({
      name: 'lock_claimed_permit',
      text: "SELECT 1 FROM sponsored_permits WHERE id = $1 AND fence = $2 AND state = 'requested' FOR UPDATE",
      values: [allowanceId, fence.toString()],
    })
    if (locked.rowCount !== 1) return 'stale'
    const accountNonce = await takeAccountNonces(sql, account, minimumAccountNonce, 1)
    const transaction = await signing.sign(accountNonce)
    await insertTransaction(sql, {
      ...account,
      settlementId: null,
      sponsoredPermitId: allowanceId,
      accountNonce,
      transaction,
    })
    await sql.query({
      name: 'record_permit',
      text: "UPDATE sponsored_permits SET state = 'signed', facilitator = $2, account_nonce = $3 WHERE id = $1",
      values: [allowanceId, account.facilitator, accountNonce.toString()],
    })
    return {
      account,
      accountNonce,
      transactions: [{ ...transaction, sender: account.facilitator, accountNonce }],
      fillers: [],
      isAbandoned: false,
    }
  })
}
