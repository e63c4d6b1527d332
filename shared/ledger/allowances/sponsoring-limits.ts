import type { Sql } from '../pool.ts'
import { readFirst, readOne } from '../read-rows.ts'

/** What the service spends on the permits of owners. */
export interface SponsoringLimits {
  /** An owner's next permit is sponsored this long after the last one that cost gas, unless the service gave it up. */
  readonly perOwnerSeconds: number
  /** The most that all permits of the last 24 hours may cost, in wei. */
  readonly dailyGasWei: bigint
  /** The most that this permit may cost: its fees do not rise above that while it is pending. */
  readonly reservedGasWei: bigint
  /** What it is expected to cost, with a margin. It counts until its real cost is known. */
  readonly expectedGasWei: bigint
  /** The network of the caller, which has a share of what wallets that never paid may use; `null` when it is unknown. */
  readonly clientNetwork: string | null
  /** Read again immediately before a transaction is signed, in atomic units of the asset. */
  readonly minimumBalance: bigint
}

/** `owner_limit`: another permit of the owner is in progress, or was sponsored lately. */
export interface SponsoringRefusal {
  readonly outcome: 'owner_limit' | 'ceiling_reached'
  readonly retryAfterSeconds: number
}

/** What is compared before a permit is stored. */
export type Limits = Omit<SponsoringLimits, 'minimumBalance' | 'reservedGasWei'>

/** The permit that is asked for does not count against itself; `null` where only an owner is known. */
interface Requested {
  readonly owner: string
  readonly digest: string | null
}

/** A permit in progress is decided within a few blocks, and then often costs less than was expected. */
const SOON_SECONDS = 10

/**
 * Returns which limit would refuse a permit of the owner now, or `null`. Reads without a lock of its own, so without
 * the one of a request it promises nothing.
 */
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
  const row = await readFirst<{ seconds: number }>(sql, {
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
  return row ? { outcome: 'owner_limit', retryAfterSeconds: wholeSeconds(row.seconds) } : null
}

/** What was spent in the last day, and what permits in progress are expected to cost. */
async function checkCeiling(sql: Sql, { dailyGasWei, expectedGasWei }: Limits): Promise<SponsoringRefusal | null> {
  const { isReached, hasOpen, untilFreed } = await readOne<{
    isReached: boolean
    hasOpen: boolean
    untilFreed: number | null
  }>(sql, {
    name: 'check_sponsored_gas',
    text: `WITH spent AS (
       SELECT finished_at, gas_wei, sum(gas_wei) OVER (ORDER BY finished_at, id) AS freed
       FROM sponsored_permits WHERE gas_wei IS NOT NULL AND finished_at > now() - interval '1 day'
     ), total AS (
       SELECT (SELECT coalesce(sum(gas_wei), 0) FROM spent) + coalesce(sum(coalesce(expected_gas_wei, reserved_gas_wei)), 0) + $2::numeric - $1::numeric
           AS excess, count(*) > 0 AS has_open
       FROM sponsored_permits WHERE state IN ('requested', 'signed'))
     SELECT excess > 0 AS "isReached", has_open AS "hasOpen",
       (SELECT extract(epoch FROM min(finished_at) + interval '1 day' - now())::float8
        FROM spent WHERE freed >= excess) AS "untilFreed"
     FROM total`,
    values: [dailyGasWei.toString(), expectedGasWei.toString()],
  })
  if (!isReached) return null
  const freedAfter = untilFreed ?? DAY_SECONDS
  const seconds = hasOpen ? Math.min(freedAfter, SOON_SECONDS) : freedAfter
  return { outcome: 'ceiling_reached', retryAfterSeconds: wholeSeconds(seconds) }
}

const DAY_SECONDS = 86_400

function wholeSeconds(seconds: number): number {
  return Math.max(1, Math.ceil(seconds))
}

/** Parts of the day's ceiling that wallets which never paid may use: together in an hour and in a day. */
const OF_AN_HOUR = 1 / 4
const OF_A_DAY = 3 / 4
/** Part of it that one network may use in a day for such wallets; its first permit is never too much. */
const OF_A_NETWORK = 1 / 16

/** Returns whether a charge of this wallet was ever collected. */
export async function hasPaid(sql: Sql, owner: string): Promise<boolean> {
  const { paid } = await readOne<{ paid: boolean }>(sql, {
    name: 'has_owner_paid',
    text: `SELECT EXISTS (SELECT FROM settlements WHERE payer = $1 AND state = 'confirmed') AS paid`,
    values: [owner],
  })
  return paid
}

/**
 * Returns the refusal of a wallet that never paid, if such wallets or those of its network have used their shares. So
 * wallets that circulate the same coins cannot use up the day, and those that pay keep a part of it in any case.
 */
async function checkShares(
  sql: Sql,
  { dailyGasWei, expectedGasWei, clientNetwork }: Limits,
): Promise<SponsoringRefusal | null> {
  const row = await readFirst<{ seconds: number | null }>(sql, {
    name: 'check_shares_of_gas',
    text: `WITH spent AS (
       SELECT gas_wei AS wei, finished_at AS at, client_network FROM sponsored_permits
       WHERE gas_wei IS NOT NULL AND finished_at > now() - interval '1 day' AND is_new_owner
       UNION ALL
       SELECT coalesce(expected_gas_wei, reserved_gas_wei), now(), client_network FROM sponsored_permits
       WHERE state IN ('requested', 'signed') AND is_new_owner
     ), share (used, ends_at, maximum, is_first_free) AS (
       SELECT sum(wei), min(at) + interval '1 hour', $1::numeric * $4, false FROM spent
       WHERE at > now() - interval '1 hour'
       UNION ALL SELECT sum(wei), min(at) + interval '1 day', $1::numeric * $5, false FROM spent
       UNION ALL SELECT sum(wei), min(at) + interval '1 day', $1::numeric * $6, true FROM spent
       WHERE client_network = $3)
     SELECT max(extract(epoch FROM ends_at - now()))::float8 AS seconds FROM share
     WHERE coalesce(used, 0) + $2::numeric > maximum AND (used IS NOT NULL OR NOT is_first_free)
     HAVING count(*) > 0`,
    values: [dailyGasWei.toString(), expectedGasWei.toString(), clientNetwork, OF_AN_HOUR, OF_A_DAY, OF_A_NETWORK],
  })
  if (!row) return null
  // Nothing is spent, and yet this one would be too much: fees may fall within the hour.
  return { outcome: 'ceiling_reached', retryAfterSeconds: wholeSeconds(row.seconds ?? HOUR_SECONDS) }
}

const HOUR_SECONDS = 3600
