import type { ClaimedJob } from '#shared/jobs/job.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Exposure } from '#shared/payment/exposure.ts'
import type { PayerFunds } from '#shared/payment/payer-funds.ts'
import type { Sql } from '../pool.ts'

const SETTLED_AFTER_BLOCK =
  "SELECT charge_amount FROM settlements WHERE payer = $1 AND state = 'confirmed' AND block_number > $3::numeric"

/**
 * `OFFSET 0` makes the planner start from the payer's few jobs: without table statistics it would read all settlements.
 */
const SETTLED_WITHIN = `SELECT paid.charge_amount FROM jobs CROSS JOIN LATERAL (
    SELECT charge_amount FROM settlements
    WHERE settlements.authorization_id = jobs.authorization_id AND settlements.state = 'confirmed' OFFSET 0) AS paid
  WHERE jobs.payer = $1 AND jobs.finished_at >= now() - make_interval(secs => $3::float8 / 1000)`

interface ExposureRow {
  amount: string
  /** `null` in the one row with the total of settled charges. */
  nonce: string | null
  by_permit: boolean
  is_settling: boolean
  owes: boolean | null
  uncharged: string | null
}

/** What a payer has open, owes, and caused without a charge. */
export interface PayerExposure extends Exposure {
  /** Whether a result of theirs is withheld until they pay for it. */
  readonly owes: boolean
  /** The payer's uncharged work of the last `windowSeconds`, without calls that the service lost. */
  readonly uncharged: AtomicAmount
}

/**
 * Returns the payer's exposure; with `aheadOf`, leaves out that job and waiting jobs accepted after it. Open work
 * counts with its signed maximum, or with its charge once that is fixed. Charges settled after the block of `funds` are
 * added, since they are still in that balance; without a reading of funds, charges settled within `verifiedMsAgo`.
 */
export async function readExposure(
  sql: Sql,
  payer: string,
  options: {
    readonly funds: PayerFunds | null
    readonly verifiedMsAgo: number
    readonly aheadOf: ClaimedJob | null
    readonly windowSeconds: number
  },
): Promise<PayerExposure> {
  const { funds, verifiedMsAgo, aheadOf, windowSeconds } = options
  const { rows } = await sql.query<ExposureRow>({
    name: funds ? 'read_exposure_since_block' : 'read_exposure_within',
    text: `SELECT CASE WHEN state IN ('accepted', 'generating') THEN authorized_maximum ELSE charge_amount END AS amount,
       nonce, permit_nonce IS NOT NULL AS by_permit, state = 'settling' AS is_settling,
       NULL::boolean AS owes, NULL::numeric AS uncharged
     FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
     WHERE jobs.payer = $1 AND finished_at IS NULL
       AND ($2::uuid IS NULL OR (jobs.id <> $2 AND (state <> 'accepted'
         OR (jobs.accepted_at, jobs.id) < (SELECT mine.accepted_at, mine.id FROM jobs AS mine WHERE mine.id = $2))))
     UNION ALL
     SELECT coalesce(sum(charge_amount), 0), NULL, NULL, NULL, EXISTS (SELECT FROM jobs WHERE payer = $1 AND is_owed),
       (SELECT coalesce(sum(amount), 0) FROM uncharged_work
         WHERE payer = $1 AND kind <> 'lost_call' AND created_at > now() - make_interval(secs => $4))
     FROM (${funds ? SETTLED_AFTER_BLOCK : SETTLED_WITHIN}) AS settled`,
    values: [payer, aheadOf?.id ?? null, funds ? funds.blockNumber.toString() : verifiedMsAgo, windowSeconds],
  })
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
    owes: settled?.owes ?? false,
    uncharged: atomicAmount(BigInt(settled?.uncharged ?? 0)),
  }
}
