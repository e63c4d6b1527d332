import type { Sql } from '../pool.ts'
import { readOne, readRows } from '../read-rows.ts'
import { afterRow, type LedgerPeriod } from './period.ts'

/** Permits with what their transactions cost: in gas, in wei of the native token, and in atomic USDC. */
export interface PermitGas {
  readonly count: number
  readonly gasUsed: bigint
  readonly wei: bigint
  readonly totalAtomic: bigint
}

/** The permits of owners that the service submitted at its own cost. */
export interface SponsoredPermitsReport {
  readonly confirmed: PermitGas
  /** Those that were mined without effect, or whose account nonce another transaction had to use up. */
  readonly failed: PermitGas
  /** The gas of both by day (UTC). */
  readonly byDay: readonly (PermitGas & { readonly day: string })[]
  /** Permits of the period that failed, by code, with or without a cost. */
  readonly failures: readonly { readonly code: string; readonly count: number }[]
  /** Requested or signed now; `reservedWei` is the most that they may cost. */
  readonly pending: { readonly count: number; readonly reservedWei: bigint; readonly oldestSince: string | null }
}

const SUMS = `count(*)::int AS count, coalesce(sum(gas_used), 0) AS "gasUsed", coalesce(sum(gas_wei), 0) AS wei,
  coalesce(sum(gas_cost), 0) AS "totalAtomic"`
const NO_GAS: PermitGas = { count: 0, gasUsed: 0n, wei: 0n, totalAtomic: 0n }
const WITH_GAS = 'gas_wei IS NOT NULL AND finished_at >= $1 AND finished_at < $2'

/** Returns the permits that ended in the period, and those in progress now. */
export async function readSponsoredPermits(sql: Sql, { from, to }: LedgerPeriod): Promise<SponsoredPermitsReport> {
  const byState = await readRows<PermitGas & { state: string }>(sql, {
    name: 'read_permit_gas',
    text: `SELECT state, ${SUMS} FROM sponsored_permits WHERE ${WITH_GAS} GROUP BY state`,
    values: [from, to],
  })
  const byDay = await readRows<PermitGas & { day: string }>(sql, {
    name: 'read_permit_gas_by_day',
    text: `SELECT to_char(finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, ${SUMS}
     FROM sponsored_permits WHERE ${WITH_GAS} GROUP BY day ORDER BY day`,
    values: [from, to],
  })
  const failures = await readRows<{ code: string; count: number }>(sql, {
    name: 'read_permit_failures',
    text: `SELECT failure_code AS code, count(*)::int AS count FROM sponsored_permits
     WHERE state = 'failed' AND finished_at >= $1 AND finished_at < $2
     GROUP BY failure_code ORDER BY count DESC, failure_code`,
    values: [from, to],
  })
  const gasOf = (wanted: string) => {
    const { state: _, ...gas } = byState.find(({ state }) => state === wanted) ?? { ...NO_GAS, state: wanted }
    return gas
  }
  return { confirmed: gasOf('confirmed'), failed: gasOf('failed'), byDay, failures, pending: await readPending(sql) }
}

function readPending(sql: Sql): Promise<SponsoredPermitsReport['pending']> {
  return readOne(sql, {
    name: 'read_pending_permits',
    text: `SELECT count(*)::int AS count, coalesce(sum(reserved_gas_wei), 0) AS "reservedWei",
       to_json(min(requested_at)) #>> '{}' AS "oldestSince"
     FROM sponsored_permits WHERE state IN ('requested', 'signed')`,
    values: [],
  })
}

/** A permit with its mined transaction according to the ledger. Addresses and hashes are lower case. */
export interface LedgerPermit {
  readonly permitId: string
  /** Whether the allowance came from this transaction: it submitted the permit and succeeded. */
  readonly isGrantedByIt: boolean
  readonly facilitator: string
  readonly transaction: string
  readonly blockNumber: bigint
  readonly gasWei: bigint
}

/**
 * Returns one page of the period's permits with a mined transaction: at most `limit` after the one with
 * the id `after`, by time.
 */
export async function readMinedPermits(
  sql: Sql,
  { from, to }: LedgerPeriod,
  page: { readonly after: string; readonly limit: number },
): Promise<readonly LedgerPermit[]> {
  return await readRows<LedgerPermit>(sql, {
    name: 'read_mined_permits',
    text: `SELECT id AS "permitId", state = 'confirmed' AND NOT is_granted_elsewhere AS "isGrantedByIt",
       lower(facilitator) AS facilitator, transaction_hash AS transaction, block_number AS "blockNumber",
       gas_wei AS "gasWei"
     FROM sponsored_permits WHERE ${WITH_GAS} AND ${afterRow('sponsored_permits', '$3')} ORDER BY finished_at, id LIMIT $4`,
    values: [from, to, page.after, page.limit],
  })
}
