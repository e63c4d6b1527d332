import type { ClaimedJob } from '#shared/jobs/job.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Exposure } from '#shared/payment/exposure.ts'
import type { PayerFunds } from '#shared/payment/payer-funds.ts'
import type { Sql } from '../pool.ts'

/** Longer than any reading of funds is used. */
const READING_LIFETIME_MS = 60_000

interface OpenRow {
  nonce: string
  amount: string
  by_permit: boolean
  is_settling: boolean
}

/**
 * What a payer's work takes from him beside one job. Open work counts with its signed maximum, or with its charge once that is
 * fixed. Charges that settled after the block of `funds` are added, since they are still in that balance; without a
 * reading, charges that settled within `verifiedMsAgo`.
 */
export async function readExposure(
  sql: Sql,
  payer: string,
  options: { readonly funds: PayerFunds | null; readonly verifiedMsAgo: number; readonly aheadOf: ClaimedJob | null },
): Promise<Exposure> {
  const { funds, verifiedMsAgo, aheadOf } = options
  const open = await sql.query<OpenRow>(
    `SELECT nonce, permit_nonce IS NOT NULL AS by_permit, state = 'settling' AS is_settling,
       CASE WHEN state IN ('accepted', 'generating') THEN authorized_maximum ELSE charge_amount END AS amount
     FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
     WHERE jobs.payer = $1 AND finished_at IS NULL
       AND ($2::uuid IS NULL OR (jobs.id <> $2 AND (state <> 'accepted'
         OR (jobs.accepted_at, jobs.id) < (SELECT mine.accepted_at, mine.id FROM jobs AS mine WHERE mine.id = $2))))`,
    [payer, aheadOf?.id ?? null],
  )
  const settled = await sql.query<{ total: string }>(
    `SELECT coalesce(sum(settlements.charge_amount), 0) AS total
     FROM jobs JOIN settlements ON settlements.authorization_id = jobs.authorization_id
     WHERE jobs.payer = $1 AND jobs.finished_at >= now() - make_interval(secs => $2 / 1000.0)
       AND settlements.state = 'confirmed' AND ($3::numeric IS NULL OR settlements.block_number > $3::numeric)`,
    [payer, funds ? READING_LIFETIME_MS : verifiedMsAgo, funds?.blockNumber.toString() ?? null],
  )
  return {
    open: open.rows.map((row) => ({
      nonce: BigInt(row.nonce),
      amount: atomicAmount(BigInt(row.amount)),
      byPermit: row.by_permit,
      isSettling: row.is_settling,
    })),
    settledSince: atomicAmount(BigInt(settled.rows[0]?.total ?? 0)),
  }
}

/** A payer's acceptances wait for each other from here to the end of the transaction, on every API process. */
export async function lockPayer(sql: Sql, network: string, payer: string): Promise<void> {
  await sql.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`farebox payer ${network} ${payer}`])
}
