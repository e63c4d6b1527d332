import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { ExhaustedBudget, UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import type { Sql } from '../pool.ts'
import { readOne } from '../read-rows.ts'

/**
 * A call with an unknown outcome is the vendor's doing when calls of at least this many other established payers to the
 * same deployment had one at about the same time.
 */
const OUTAGE_PAYERS = 3
const OUTAGE_SECONDS = 300

/**
 * The payer's uncharged work of the window. Entries of an outage do not count, oldest first, up to the most that may be
 * forgiven.
 */
const COUNTED = `entries AS (
    SELECT id, created_at, kind, amount, kind = 'unknown_outcome' AND ${OUTAGE_PAYERS} <= (
      SELECT count(DISTINCT others.payer) FROM uncharged_work AS others
      WHERE others.kind = 'unknown_outcome' AND others.deployment = mine.deployment
        AND others.created_at BETWEEN mine.created_at - make_interval(secs => ${OUTAGE_SECONDS})
          AND mine.created_at + make_interval(secs => ${OUTAGE_SECONDS})
        AND others.payer <> $1 AND NOT others.is_new_payer) AS in_outage
    FROM uncharged_work AS mine
    WHERE payer = $1 AND kind <> 'lost_call' AND created_at > now() - make_interval(secs => $2)),
  counted AS (
    SELECT id, created_at, kind, CASE
      WHEN in_outage AND sum(amount) FILTER (WHERE in_outage) OVER (ORDER BY created_at, id) <= $4::numeric THEN 0
      ELSE amount END AS amount
    FROM entries)`

interface BudgetRow {
  readonly used: AtomicAmount
  readonly allowed: AtomicAmount
  readonly byKind: Readonly<Record<string, string>> | null
  readonly leavesInSeconds: number | null
}

/**
 * Returns the payer's uncharged work if it has reached the budget, else `null`. `uncharged` is the plain sum of the
 * window: while it is below the budget, as nearly always, nothing else is read.
 */
export async function findExhaustedBudget(
  sql: Sql,
  payer: string,
  uncharged: AtomicAmount,
  { windowSeconds, perPayer, maximumForgiven }: UnchargedBudget,
): Promise<ExhaustedBudget | null> {
  if (uncharged < perPayer) return null
  const { used, allowed, byKind, leavesInSeconds } = await readOne<BudgetRow>(sql, {
    name: 'read_uncharged_budget',
    text: `WITH ${COUNTED},
       allowed AS (
         SELECT $3::numeric + coalesce(sum(charge_amount), 0) AS amount FROM jobs
         WHERE payer = $1 AND state = 'completed' AND finished_at > now() - make_interval(secs => $2))
     SELECT allowed.amount AS allowed, (SELECT coalesce(sum(amount), 0) FROM counted) AS used,
       (SELECT jsonb_object_agg(kind, total::text) FROM (
         SELECT kind, sum(amount) AS total FROM counted GROUP BY kind HAVING sum(amount) > 0) AS kinds) AS "byKind",
       (SELECT extract(epoch FROM max(created_at) + make_interval(secs => $2) - clock_timestamp())::float8 FROM (
         SELECT created_at, sum(amount) OVER (ORDER BY created_at DESC, id DESC) AS not_older FROM counted) AS sums
         WHERE not_older >= allowed.amount) AS "leavesInSeconds"
     FROM allowed`,
    values: [payer, windowSeconds, perPayer.toString(), maximumForgiven.toString()],
  })
  if (used < allowed) return null
  return {
    used,
    allowed,
    byKind: Object.fromEntries(
      Object.entries(byKind ?? {}).map(([kind, total]) => [kind, atomicAmount(BigInt(total))]),
    ),
    retryAfterSeconds: Math.max(1, Math.ceil(leavesInSeconds ?? windowSeconds)),
  }
}
