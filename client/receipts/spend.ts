import type { FareboxContext } from '../context.ts'
import { listReceipts } from './list-receipts.ts'

export interface SpendQuery {
  /** UTC days, today included; 30 by default, 366 at most. */
  readonly days?: number | undefined
}

/** What was charged in a period. Amounts are atomic USDC, days `2026-11-22` in UTC. */
export interface Spend {
  readonly from: string
  /** Included. */
  readonly to: string
  readonly calls: number
  readonly charged: bigint
  /** What may still be charged for calls without a known outcome. */
  readonly open: bigint
  /** By day, newest first, then by operation, model and purpose. */
  readonly rows: readonly SpendRow[]
}

export interface SpendRow {
  readonly day: string
  readonly model: string | null
  readonly operation: string
  readonly purpose: string
  readonly calls: number
  readonly charged: bigint
}

/** The columns by which rows can be added up. */
export const SPEND_COLUMNS = ['day', 'model', 'operation', 'purpose'] as const

export interface SpendSum {
  readonly value: string | null
  readonly calls: number
  readonly charged: bigint
}

/** Adds up rows that agree in one column: days in their order, others by what they cost, most first. */
export function sumsBy(rows: readonly SpendRow[], column: (typeof SPEND_COLUMNS)[number]): readonly SpendSum[] {
  const sums = new Map<string | null, SpendSum>()
  for (const row of rows) {
    const value = row[column]
    const { calls, charged } = sums.get(value) ?? { calls: 0, charged: 0n }
    sums.set(value, { value, calls: calls + row.calls, charged: charged + row.charged })
  }
  const all = [...sums.values()]
  return column === 'day' ? all : all.sort((one, other) => (one.charged < other.charged ? 1 : -1))
}

type SpendContext = Pick<FareboxContext, 'journal' | 'payer' | 'baseUrl' | 'now'>

export const DEFAULT_DAYS = 30
export const MOST_DAYS = 366
const DAY_MS = 86_400_000

/** Adds up what the wallet paid to this service. Throws `RangeError` for a number of days that is not possible. */
export function addUpSpend(context: SpendContext, { days = DEFAULT_DAYS }: SpendQuery = {}): Spend {
  if (!Number.isInteger(days) || days < 1 || days > MOST_DAYS)
    throw new RangeError(`days must be an integer from 1 to ${MOST_DAYS}; got ${days}`)
  const to = dayOf(context.now())
  const from = dayOf(Date.parse(to) - (days - 1) * DAY_MS)
  const rows = new Map<string, SpendRow>()
  for (const record of listReceipts(context, { since: new Date(from) })) {
    const { at, model, operation, purpose, charged } = record
    const row = { day: dayOf(at.getTime()), model, operation, purpose, calls: 1, charged }
    const id = JSON.stringify([row.day, row.operation, row.model, row.purpose])
    const before = rows.get(id)
    rows.set(id, before ? { ...row, calls: before.calls + 1, charged: before.charged + charged } : row)
  }
  return { ...totals([...rows.values()]), from, to, open: openSum(context) }
}

/** Returns the sum of the maxima whose outcome is not known. */
function openSum({ journal, payer, baseUrl }: SpendContext): bigint {
  const { origin } = new URL(baseUrl)
  let sum = 0n
  for (const attempt of journal.attempts.all())
    if (attempt.open?.isSigned === true && attempt.payer === payer && attempt.origin === origin)
      sum += attempt.open.maximum
  return sum
}

function totals(rows: readonly SpendRow[]): Pick<Spend, 'rows' | 'calls' | 'charged'> {
  return {
    rows: rows.toSorted(compareRows),
    calls: rows.reduce((sum, { calls }) => sum + calls, 0),
    charged: rows.reduce((sum, { charged }) => sum + charged, 0n),
  }
}

function compareRows(a: SpendRow, b: SpendRow): number {
  const nameOf = ({ operation, model, purpose }: SpendRow) => [operation, model, purpose].join('\n')
  return b.day.localeCompare(a.day) || nameOf(a).localeCompare(nameOf(b))
}

function dayOf(time: number): string {
  return new Date(time).toISOString().slice(0, 'YYYY-MM-DD'.length)
}
