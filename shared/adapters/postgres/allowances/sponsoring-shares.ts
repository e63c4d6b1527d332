import type { SponsoringLimits, SponsoringRefusal } from '#shared/jobs/allowance-store.ts'
import type { Sql } from '../pool.ts'

/** Parts of the day's ceiling that wallets which never paid may use: together in an hour and in a day. */
const OF_AN_HOUR = 1 / 4
const OF_A_DAY = 3 / 4
/** Part of it that one network may use in a day for such wallets; its first permit is never too much. */
const OF_A_NETWORK = 1 / 16

/** Returns whether a charge of this wallet was ever collected. */
export async function hasPaid(sql: Sql, owner: string): Promise<boolean> {
  const { rows } = await sql.query<{ has_paid: boolean }>({
    name: 'has_owner_paid',
    text: `SELECT EXISTS (SELECT FROM settlements WHERE payer = $1 AND state = 'confirmed') AS has_paid`,
    values: [owner],
  })
  return rows[0]?.has_paid === true
}

/**
 * Returns the refusal of a wallet that never paid, if such wallets or those of its network have used their shares. So
 * wallets that circulate the same coins cannot use up the day, and those that pay keep a part of it in any case.
 */
export async function checkShares(
  sql: Sql,
  {
    dailyGasWei,
    expectedGasWei,
    clientNetwork,
  }: Pick<SponsoringLimits, 'dailyGasWei' | 'expectedGasWei' | 'clientNetwork'>,
): Promise<SponsoringRefusal | null> {
  const { rows } = await sql.query<{ seconds: number | null }>({
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
  const [row] = rows
  if (!row) return null
  // Nothing is spent, and yet this one would be too much: fees may fall within the hour.
  return { outcome: 'ceiling_reached', retryAfterSeconds: Math.max(1, Math.ceil(row.seconds ?? HOUR_SECONDS)) }
}

const HOUR_SECONDS = 3600
