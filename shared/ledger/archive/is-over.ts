/** Longer than clocks differ: a deadline that has passed for us has passed for everybody. */
const AFTER_DEADLINE = "interval '1 day'"

/**
 * Whether nothing can happen to the completed call `jobs` any more, and nobody waits for anything of it: its result is
 * erased, all of its settlements are final on chain, its payments and its challenge have expired, and no settlement without a
 * record waits for a person. One that is lost or surplus is never final, so its documents stay.
 */
export const IS_OVER = `jobs.state = 'completed' AND jobs.result_body IS NULL AND NOT jobs.is_owed
  AND EXISTS (SELECT FROM settlements WHERE settlements.job_id = jobs.id AND settlements.state = 'confirmed')
  AND NOT EXISTS (SELECT FROM settlements WHERE settlements.job_id = jobs.id AND settlements.finalized_at IS NULL)
  AND NOT EXISTS (SELECT FROM authorizations AS payment WHERE payment.job_id = jobs.id
    AND (payment.deadline > now() - ${AFTER_DEADLINE}
      OR payment.permit_nonce IS NOT NULL AND payment.permit_released_at IS NULL
      OR EXISTS (SELECT FROM unknown_settlements AS unknown WHERE unknown.network = payment.network
        AND unknown.payer = payment.payer AND unknown.nonce = payment.nonce AND unknown.resolved_at IS NULL)))
  AND NOT EXISTS (SELECT FROM unknown_settlements AS unknown
    WHERE unknown.job_id = jobs.id AND unknown.resolved_at IS NULL)
  AND NOT EXISTS (SELECT FROM idempotency_keys AS bound WHERE bound.idempotency_key = jobs.idempotency_key
    AND bound.expires_at > now() - ${AFTER_DEADLINE})`

/** The completed calls of a month, from `$1` to before `$2`, whose documents are in the ledger. */
export const NOT_ARCHIVED = `jobs.state = 'completed' AND jobs.finished_at >= $1 AND jobs.finished_at < $2
  AND EXISTS (SELECT FROM receipts WHERE receipts.job_id = jobs.id AND receipts.archive_object IS NULL)`

/** Returns the first moment of a month such as `2026-08`, and that of the next one, in UTC. */
export function boundsOf(month: string): readonly [from: Date, before: Date] {
  const [year, number] = month.split('-').map(Number) as [number, number]
  return [new Date(Date.UTC(year, number - 1)), new Date(Date.UTC(year, number))]
}

/** Returns the month of a moment in UTC. */
export function monthOf(moment: Date): string {
  return moment.toISOString().slice(0, '2026-08'.length)
}

/** Returns the first day of a month, as a date of PostgreSQL. */
export function firstDayOf(month: string): string {
  return `${month}-01`
}
