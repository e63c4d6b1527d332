import type { SponsoringLimits, SponsoringRefusal } from '#shared/jobs/allowance-store.ts'
import type { Sql } from '../pool.ts'
import { checkShares, hasPaid } from './sponsoring-shares.ts'

type Limits = Omit<SponsoringLimits, 'minimumBalance' | 'reservedGasWei'>

/** The permit that is asked for does not count against itself; `null` where only an owner is known. */
interface Requested {
  readonly owner: string
  readonly digest: string | null
}

/** A permit in progress is decided within a few blocks, and then often costs less than was expected. */
const SOON_SECONDS = 10

/** Returns which limit refuses a permit, or `null`. */
export async function findSponsoringRefusal(
  sql: Sql,
  requested: Requested,
  limits: Limits,
): Promise<SponsoringRefusal | null> {
  const refusal = await checkOwner(sql, requested, limits)
  if (refusal) return refusal
  const refused = (await hasPaid(sql, requested.owner)) ? null : await checkShares(sql, limits)
  return refused ?? (await checkCeiling(sql, limits))
}

async function checkOwner(
  sql: Sql,
  { owner, digest }: Requested,
  { perOwnerSeconds }: Limits,
): Promise<SponsoringRefusal | null> {
  const { rows } = await sql.query<{ seconds: number }>({
    name: 'check_owner_of_permit',
    text: `SELECT max(CASE WHEN finished_at IS NULL THEN $4::float8
         ELSE extract(epoch FROM finished_at - now())::float8 + $3::float8 END) AS seconds
     FROM sponsored_permits
     WHERE owner = $1 AND digest IS DISTINCT FROM $2
       AND (finished_at IS NULL OR (gas_wei IS NOT NULL AND failure_code IS DISTINCT FROM 'gas_unavailable'
         AND finished_at > now() - make_interval(secs => $3)))
     HAVING count(*) > 0`,
    values: [owner, digest, perOwnerSeconds, SOON_SECONDS],
  })
  const [row] = rows
  return row ? { outcome: 'owner_limit', retryAfterSeconds: wholeSeconds(row.seconds) } : null
}

/** What was spent in the last day, and what permits in progress are expected to cost. */
async function checkCeiling(sql: Sql, { dailyGasWei, expectedGasWei }: Limits): Promise<SponsoringRefusal | null> {
  const { rows } = await sql.query<{ is_reached: boolean; has_open: boolean; seconds: number | null }>({
    name: 'check_sponsored_gas',
    text: `WITH spent AS (
       SELECT finished_at, gas_wei, sum(gas_wei) OVER (ORDER BY finished_at, id) AS freed
       FROM sponsored_permits WHERE gas_wei IS NOT NULL AND finished_at > now() - interval '1 day'
     ), total AS (
       SELECT (SELECT coalesce(sum(gas_wei), 0) FROM spent) + coalesce(sum(coalesce(expected_gas_wei, reserved_gas_wei)), 0) + $2::numeric - $1::numeric
           AS excess, count(*) > 0 AS has_open
       FROM sponsored_permits WHERE state IN ('requested', 'signed'))
     SELECT excess > 0 AS is_reached, has_open,
       (SELECT extract(epoch FROM min(finished_at) + interval '1 day' - now())::float8
        FROM spent WHERE freed >= excess) AS seconds
     FROM total`,
    values: [dailyGasWei.toString(), expectedGasWei.toString()],
  })
  const [row] = rows
  if (!row) throw new Error('an aggregate always returns its row')
  if (!row.is_reached) return null
  const untilFreed = row.seconds ?? DAY_SECONDS
  const seconds = row.has_open ? Math.min(untilFreed, SOON_SECONDS) : untilFreed
  return { outcome: 'ceiling_reached', retryAfterSeconds: wholeSeconds(seconds) }
}

const DAY_SECONDS = 86_400

function wholeSeconds(seconds: number): number {
  return Math.max(1, Math.ceil(seconds))
}
