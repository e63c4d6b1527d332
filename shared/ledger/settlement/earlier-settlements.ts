import type { LeasedJob, Written } from '#shared/jobs/job.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { type Authorization, storedAuthorizationSchema } from '#shared/payment/authorization.ts'
import { inFencedTransaction, lockLeasedJob, NOT_DEFERRED } from '../move-job.ts'
import type { Pool, Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import { NEWEST_FIRST, SIGNED_FOR_SETTLEMENT } from '../settlement-transactions.ts'
import { CHARGED_BY_SETTLEMENT, IS_RESOLVED, REOPENED } from './failed-settlements.ts'

type Hex = `0x${string}`

/** A settlement of an authorization that the payer replaced by a later one. */
export interface EarlierSettlement {
  readonly settlementId: string
  readonly authorizationId: string
  readonly authorization: Authorization
  readonly chargeAmount: AtomicAmount
  readonly settledBy: 'own_key' | 'remote_facilitator'
  /** Newest first; without sender and account nonce where a remote facilitator signed them. */
  readonly transactions: readonly {
    readonly hash: Hex
    readonly sender: Hex | null
    readonly accountNonce: bigint | null
  }[]
  /** Transactions that only fill the nonce gap which a failed settlement left: with one of them mined, none of it can be. */
  readonly fillers: readonly { readonly hash: Hex; readonly sender: Hex; readonly accountNonce: bigint }[]
  /** No transaction of this settlement is in an earlier block. */
  readonly firstBlock: bigint
  /** `failed_finally`: a final block proves it. `charged`: it is known to have charged the payer. */
  readonly known: 'failed_finally' | 'failed' | 'charged'
}

/** A reorganization can move a transaction into a block with a lower number than the one that judged it. */
const REORGANIZATION_DEPTH = 64

/** Returns the settlements of the job's earlier authorizations, none of which had charged the payer when it ended. */
export async function readEarlierSettlements(sql: Sql, job: LeasedJob): Promise<readonly EarlierSettlement[]> {
  const rows = await readRows<
    Omit<EarlierSettlement, 'authorization' | 'transactions' | 'fillers'> & {
      signed: unknown
      transactions: readonly { hash: Hex; sender: Hex; account_nonce: string | null }[] | null
      fillers: readonly { hash: Hex; sender: Hex; account_nonce: string }[] | null
    }
  >(sql, {
    name: 'read_earlier_settlements',
    text: `SELECT settlements.id AS "settlementId", authorization_id AS "authorizationId", signed,
       charge_amount AS "chargeAmount", settled_by AS "settledBy",
       COALESCE(recorded_block, GREATEST(block_number - $2, 0), 0) AS "firstBlock",
       CASE WHEN state = 'surplus' THEN CASE WHEN ${IS_RESOLVED} THEN 'failed_finally' ELSE 'charged' END
         WHEN finalized_at IS NOT NULL THEN 'failed_finally' ELSE 'failed' END AS known,
       (SELECT json_agg(json_build_object(
            'hash', hash, 'sender', signed.facilitator, 'account_nonce', signed.account_nonce::text)
          ORDER BY ${NEWEST_FIRST})
        FROM ${SIGNED_FOR_SETTLEMENT}) AS transactions,
       (SELECT json_agg(json_build_object(
            'hash', filler.hash, 'sender', filler.facilitator, 'account_nonce', filler.account_nonce::text))
        FROM settlement_transactions AS filler
        WHERE filler.settlement_id IS NULL AND filler.batch_id IS NULL AND filler.network = settlements.network
          AND (filler.facilitator, filler.account_nonce) IN (
            SELECT signed.facilitator, signed.account_nonce FROM ${SIGNED_FOR_SETTLEMENT})) AS fillers
     FROM settlements JOIN authorizations ON authorizations.id = authorization_id
     WHERE settlements.job_id = $1 AND state IN ('reverted', 'surplus') ORDER BY signed_at`,
    values: [job.id, REORGANIZATION_DEPTH],
  })
  return rows.map(({ signed, transactions, fillers, ...row }) => ({
    ...row,
    authorization: storedAuthorizationSchema.parse(signed),
    // A remote facilitator names its transactions, not the account that sent them.
    transactions: (transactions ?? []).map(({ hash, sender, account_nonce }) =>
      account_nonce === null
        ? { hash, sender: null, accountNonce: null }
        : { hash, sender, accountNonce: BigInt(account_nonce) },
    ),
    fillers: (fillers ?? []).map(({ account_nonce, ...filler }) => ({
      ...filler,
      accountNonce: BigInt(account_nonce),
    })),
  }))
}

/**
 * Moves generated → settling with an earlier settlement that charged the payer after all: it is open again, and the
 * job is charged by it. The job's current authorization is left unsettled.
 */
export async function adoptSettlement(
  pool: Pool,
  job: LeasedJob,
  { settlementId }: EarlierSettlement,
): Promise<Written> {
  return await inFencedTransaction(pool, async (sql) => {
    await lockLeasedJob(sql, job, 'generated')
    // The current authorization is never settled, so the payer's next permit may have its nonce.
    await sql.query({
      name: 'release_replaced_permit',
      text: 'UPDATE authorizations SET permit_released_at = now() WHERE id = $1 AND permit_released_at IS NULL',
      values: [job.authorizationId],
    })
    const { rowCount } = await sql.query({
      name: 'adopt_settlement',
      text: `WITH settlement AS (${REOPENED} AND settlements.job_id = $2 RETURNING job_id, authorization_id, charge_amount)
       UPDATE jobs SET state = 'settling', ${NOT_DEFERRED}, ${CHARGED_BY_SETTLEMENT}
       FROM settlement WHERE jobs.id = settlement.job_id`,
      values: [settlementId, job.id],
    })
    if (rowCount !== 1) throw new Error(`job ${job.id} has no earlier settlement ${settlementId}`)
  })
}
