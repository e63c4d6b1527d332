import type { CallSummary, ResolutionRecord, UnknownSettlementRecord } from '#shared/operators/payment-record.ts'
import type { UnchargedKind } from '#shared/payment/uncharged-budget.ts'
import type { Pool, Sql } from '../pool.ts'
import { readOne } from '../read-rows.ts'
import {
  MARGIN_SUMS,
  type Margin,
  type MarginRow,
  marginOf,
  SETTLEMENT_OF_JOB,
  VENDOR_OF_JOB,
} from '../reports/margin.ts'
import { inTransaction } from '../transaction.ts'
import { CALL, type CallRow, callSummary } from './call-row.ts'
import { readPayerResolutions, readUnknownSettlements } from './payment-parts.ts'
import type { CountAndAmount } from './read-days.ts'

/** What a payer has open, owes and spent. Amounts are atomic USDC. */
export interface PayerRecord {
  readonly payer: string
  readonly open: readonly CallSummary[]
  /** Of all open calls: the charge where it is fixed, the quoted maximum before. */
  readonly exposure: CountAndAmount
  readonly owed: readonly CallSummary[]
  readonly debts: CountAndAmount
  /** Completed calls of the last day and the last 30 days. */
  readonly spentToday: CountAndAmount
  readonly spentLately: CountAndAmount
  /** Of the completed calls of the last day. */
  readonly earnedToday: Margin
  /** Whether older calls of the 30 days are left out of the sum, because there are too many. */
  readonly isSpendCut: boolean
  /** Work of the last day that ended without a charge, by kind. */
  readonly uncharged: readonly (CountAndAmount & { readonly kind: UnchargedKind })[]
  /** The newest of each. */
  readonly unknownSettlements: readonly UnknownSettlementRecord[]
  readonly resolutions: readonly ResolutionRecord[]
}

/** What a page lists of each kind; totals are over all of it. */
const SHOWN = 20
/** The newest calls whose charges are summed: a payer with millions of calls must not slow a page down. */
const SUMMED_CALLS = 20_000

interface CountRow {
  readonly count: number
  readonly amount: string
}

/**
 * Reads what a payer in lower case has open, owes and spent, from one snapshot; `null` for an address without calls,
 * permits or unknown settlements.
 */
export async function readPayer(pool: Pool, payer: string): Promise<PayerRecord | null> {
  return await inTransaction(pool, async (sql) => {
    await sql.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY')
    if (!(await isKnown(sql, payer))) return null
    const open = await readUnpaid(sql, payer, 'open', 'finished_at IS NULL')
    const owed = await readUnpaid(sql, payer, 'owed', 'is_owed')
    return {
      payer,
      open: open.calls,
      exposure: open.total,
      owed: owed.calls,
      debts: owed.total,
      ...(await readSpend(sql, payer)),
      uncharged: await readUncharged(sql, payer),
      unknownSettlements: await readUnknownSettlements(sql, 'payer', payer),
      resolutions: await readPayerResolutions(sql, payer),
    }
  })
}

async function isKnown(sql: Sql, payer: string): Promise<boolean> {
  const { rows } = await sql.query({
    name: 'is_console_payer_known',
    text: `SELECT 1 WHERE EXISTS (SELECT FROM jobs WHERE payer = $1)
       OR EXISTS (SELECT FROM unknown_settlements WHERE payer = $1)`,
    values: [payer],
  })
  return rows.length > 0
}

async function readUnpaid(sql: Sql, payer: string, kind: 'open' | 'owed', condition: string) {
  const { rows: totals } = await sql.query<CountRow>({
    name: `sum_console_payer_${kind}`,
    text: `SELECT count(*)::int AS count, coalesce(sum(coalesce(charge_amount, quoted_maximum)), 0) AS amount
     FROM jobs WHERE payer = $1 AND ${condition}`,
    values: [payer],
  })
  const { rows } = await sql.query<CallRow>({
    name: `list_console_payer_${kind}`,
    text: `SELECT ${CALL} FROM jobs WHERE payer = $1 AND ${condition} ORDER BY accepted_at, id LIMIT ${SHOWN}`,
    values: [payer],
  })
  return { calls: rows.map(callSummary), total: countAndAmount(totals[0]) }
}

async function readSpend(
  sql: Sql,
  payer: string,
): Promise<Pick<PayerRecord, 'spentToday' | 'spentLately' | 'earnedToday' | 'isSpendCut'>> {
  const row = await readOne<MarginRow & { readonly lately: number; readonly lately_amount: bigint }>(sql, {
    name: 'sum_console_payer_spend',
    text: `WITH newest AS MATERIALIZED (
         SELECT id, authorization_id, charge_amount, finished_at > now() - interval '1 day' AS is_today FROM jobs
         WHERE payer = $1 AND state = 'completed' AND finished_at > now() - interval '30 days'
         ORDER BY finished_at DESC, id DESC LIMIT ${SUMMED_CALLS}),
       lately AS (
         SELECT count(*)::int AS lately, coalesce(sum(charge_amount), 0) AS lately_amount FROM newest),
       today AS (
         SELECT ${MARGIN_SUMS} FROM newest AS jobs
         LEFT JOIN LATERAL (${VENDOR_OF_JOB} OFFSET 0) AS attempts ON true
         LEFT JOIN LATERAL (${SETTLEMENT_OF_JOB} OFFSET 0) AS settlement ON true
         WHERE is_today)
       SELECT lately, lately_amount, calls, coalesce(charged, 0) AS charged, vendor, gas, without_vendor_cost, without_gas
       FROM lately, today`,
    values: [payer],
  })
  const earnedToday = marginOf(row)
  return {
    spentToday: { count: earnedToday.calls, amount: earnedToday.chargedAtomic },
    spentLately: { count: row.lately, amount: row.lately_amount },
    earnedToday,
    isSpendCut: row.lately === SUMMED_CALLS,
  }
}

async function readUncharged(sql: Sql, payer: string): Promise<PayerRecord['uncharged']> {
  const { rows } = await sql.query<CountRow & { kind: UnchargedKind }>({
    name: 'sum_console_payer_uncharged',
    text: `SELECT kind, count(*)::int AS count, sum(amount) AS amount FROM uncharged_work
     WHERE payer = $1 AND created_at > now() - interval '1 day' GROUP BY kind ORDER BY kind`,
    values: [payer],
  })
  return rows.map((row) => ({ kind: row.kind, ...countAndAmount(row) }))
}

function countAndAmount(row: CountRow | undefined): CountAndAmount {
  return { count: row?.count ?? 0, amount: BigInt(row?.amount ?? 0) }
}
