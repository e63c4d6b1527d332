import type { ClaimedJob } from '#shared/jobs/job.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Exposure } from '#shared/payment/exposure.ts'
import type { PayerFunds } from '#shared/payment/payer-funds.ts'
import type { Sql } from '../pool.ts'

/** Longer than any reading of funds is used. */
const READING_LIFETIME_MS = 60_000

interface ExposureRow {
  amount: string
  /** `null` in the one row that tells the total of what settled. */
  nonce: string | null
  by_permit: boolean
  is_settling: boolean
}

/**
 * What a payer's work takes from him beside one job. Open work counts with its signed maximum, or with its charge once that is
 * fixed. Charges that settled after the block of `funds` are added, since they are still in that balance; without a
 * reading, charges that settled within `verifiedMsAgo`.
 *
 * `OFFSET 0` keeps the lookups in this order, from the payer's few jobs to their settlements: planned before the tables were first
 * analysed they went the other way, which took ten times as long at 500 settlements.
 */
export async function readExposure(
  sql: Sql,
  payer: string,
  options: { readonly funds: PayerFunds | null; readonly verifiedMsAgo: number; readonly aheadOf: ClaimedJob | null },
): Promise<Exposure> {
  const { funds, verifiedMsAgo, aheadOf } = options
  const { rows } = await sql.query<ExposureRow>(
    `SELECT CASE WHEN state IN ('accepted', 'generating') THEN authorized_maximum ELSE charge_amount END AS amount,
       nonce, permit_nonce IS NOT NULL AS by_permit, state = 'settling' AS is_settling
     FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
     WHERE jobs.payer = $1 AND finished_at IS NULL
       AND ($2::uuid IS NULL OR (jobs.id <> $2 AND (state <> 'accepted'
         OR (jobs.accepted_at, jobs.id) < (SELECT mine.accepted_at, mine.id FROM jobs AS mine WHERE mine.id = $2))))
     UNION ALL
     SELECT coalesce(sum(settled.charge_amount), 0), NULL, NULL, NULL
     FROM jobs CROSS JOIN LATERAL (
       SELECT charge_amount FROM settlements
       WHERE settlements.authorization_id = jobs.authorization_id AND settlements.state = 'confirmed'
         AND ($4::numeric IS NULL OR block_number > $4::numeric) OFFSET 0) AS settled
     WHERE jobs.payer = $1 AND jobs.finished_at >= now() - make_interval(secs => $3 / 1000.0)`,
    [payer, aheadOf?.id ?? null, funds ? READING_LIFETIME_MS : verifiedMsAgo, funds?.blockNumber.toString() ?? null],
  )
  const settled = rows.find(({ nonce }) => nonce === null)
  return {
    open: rows.flatMap(({ nonce, amount, by_permit, is_settling }) =>
      nonce === null
        ? []
        : [
            {
              nonce: BigInt(nonce),
              amount: atomicAmount(BigInt(amount)),
              byPermit: by_permit,
              isSettling: is_settling,
            },
          ],
    ),
    settledSince: atomicAmount(BigInt(settled?.amount ?? 0)),
  }
}
