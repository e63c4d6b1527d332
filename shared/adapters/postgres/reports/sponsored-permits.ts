import type { Sql } from '../pool.ts'
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

const SUMS = `count(*)::int AS count, coalesce(sum(gas_used), 0) AS gas, coalesce(sum(gas_wei), 0) AS wei,
  coalesce(sum(gas_cost), 0) AS total`
const WITH_GAS = 'gas_wei IS NOT NULL AND finished_at >= $1 AND finished_at < $2'

interface SumsRow {
  count: number
  gas: string
  wei: string
  total: string
}

/** Returns the permits that ended in the period, and those in progress now. */
export async function readSponsoredPermits(sql: Sql, { from, to }: LedgerPeriod): Promise<SponsoredPermitsReport> {
  const { rows: byState } = await sql.query<SumsRow & { state: string }>({
    name: 'read_permit_gas',
    text: `SELECT state, ${SUMS} FROM sponsored_permits WHERE ${WITH_GAS} GROUP BY state`,
    values: [from, to],
  })
  const { rows: byDay } = await sql.query<SumsRow & { day: string }>({
    name: 'read_permit_gas_by_day',
    text: `SELECT to_char(finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, ${SUMS}
     FROM sponsored_permits WHERE ${WITH_GAS} GROUP BY day ORDER BY day`,
    values: [from, to],
  })
  const { rows: failures } = await sql.query<{ code: string; count: number }>({
    name: 'read_permit_failures',
    text: `SELECT failure_code AS code, count(*)::int AS count FROM sponsored_permits
     WHERE state = 'failed' AND finished_at >= $1 AND finished_at < $2
     GROUP BY failure_code ORDER BY count DESC, failure_code`,
    values: [from, to],
  })
  const gasOf = (state: string) => permitGas(byState.find((row) => row.state === state))
  return {
    confirmed: gasOf('confirmed'),
    failed: gasOf('failed'),
    byDay: byDay.map((row) => ({ day: row.day, ...permitGas(row) })),
    failures,
    pending: await readPending(sql),
  }
}

async function readPending(sql: Sql): Promise<SponsoredPermitsReport['pending']> {
  const { rows } = await sql.query<{ count: number; reserved: string; since: string | null }>({
    name: 'read_pending_permits',
    text: `SELECT count(*)::int AS count, coalesce(sum(reserved_gas_wei), 0) AS reserved,
       to_json(min(requested_at)) #>> '{}' AS since
     FROM sponsored_permits WHERE state IN ('requested', 'signed')`,
    values: [],
  })
  const [row] = rows
  if (!row) throw new Error('an aggregate without groups always returns one row')
  return { count: row.count, reservedWei: BigInt(row.reserved), oldestSince: row.since }
}

function permitGas(row: SumsRow | undefined): PermitGas {
  return {
    count: row?.count ?? 0,
    gasUsed: BigInt(row?.gas ?? 0),
    wei: BigInt(row?.wei ?? 0),
    totalAtomic: BigInt(row?.total ?? 0),
  }
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
  const { rows } = await sql.query<{
    id: string
    is_granted_by_it: boolean
    facilitator: string
    transaction_hash: string
    block_number: string
    gas_wei: string
  }>({
    name: 'read_mined_permits',
    text: `SELECT id, state = 'confirmed' AND NOT is_granted_elsewhere AS is_granted_by_it,
       lower(facilitator) AS facilitator, transaction_hash, block_number, gas_wei
     FROM sponsored_permits WHERE ${WITH_GAS} AND ${afterRow('sponsored_permits', '$3')} ORDER BY finished_at, id LIMIT $4`,
    values: [from, to, page.after, page.limit],
  })
  return rows.map((row) => ({
    permitId: row.id,
    isGrantedByIt: row.is_granted_by_it,
    facilitator: row.facilitator,
    transaction: row.transaction_hash,
    blockNumber: BigInt(row.block_number),
    gasWei: BigInt(row.gas_wei),
  }))
}
