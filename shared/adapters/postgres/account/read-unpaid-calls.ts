import type { JobState } from '#shared/jobs/job.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Sql } from '../pool.ts'
import {
  type AccountPage,
  BEGINNING,
  cutPage,
  microsecondsOf,
  type PageRequest,
  type PositionRow,
  timestampOf,
} from '../position.ts'

/** A call that is not paid for: in progress, or completed and owed. */
export interface UnpaidCall {
  readonly idempotencyKey: string
  readonly requestId: string | null
  readonly operation: string
  readonly model: string
  readonly state: JobState
  readonly acceptedAt: Date
  readonly quotedMaximum: AtomicAmount
  /** `null` until the result exists. */
  readonly charge: AtomicAmount | null
}

/** A page of unpaid calls with the totals of the whole list: the charge, or the quoted maximum where none is fixed. */
export interface UnpaidCalls extends AccountPage<UnpaidCall> {
  readonly calls: number
  readonly total: AtomicAmount
}

interface CallRow extends PositionRow {
  readonly idempotency_key: string
  readonly request_id: string | null
  readonly operation: string
  readonly public_model: string
  readonly state: JobState
  readonly accepted_at: Date
  readonly quoted_maximum: string
  readonly charge_amount: string | null
}

/** Every row repeats the totals; a list without entries is one row without an id. */
type Row = { readonly calls: number; readonly total: string } & (CallRow | { readonly id: null })

/** Returns completed calls of a payer whose charge is owed, oldest first. */
export function readDebts(sql: Sql, payer: string, page: PageRequest): Promise<UnpaidCalls> {
  return readUnpaidCalls(sql, payer, page, { name: 'read_account_debts', conditions: ['is_owed'] })
}

/** Returns calls of a payer that have not ended, oldest first, and those that a person decides about. */
export function readOpenCalls(sql: Sql, payer: string, page: PageRequest): Promise<UnpaidCalls> {
  return readUnpaidCalls(sql, payer, page, {
    name: 'read_account_open',
    // Two queries, so that each uses an index of few rows.
    conditions: [
      'finished_at IS NULL',
      `state = 'review' AND NOT EXISTS (
        SELECT FROM resolutions WHERE resolutions.job_id = jobs.id AND resolutions.item = 'review')`,
    ],
  })
}

async function readUnpaidCalls(
  sql: Sql,
  payer: string,
  { limit, after }: PageRequest,
  { name, conditions }: { readonly name: string; readonly conditions: readonly string[] },
): Promise<UnpaidCalls> {
  const from = after ?? BEGINNING
  const { rows } = await sql.query<Row>({
    name,
    text: `WITH unpaid AS MATERIALIZED (${conditions.map(selectCalls).join(' UNION ALL ')})
     SELECT totals.calls, totals.total, page.id, page.microseconds, page.idempotency_key, page.request_id,
       page.operation, page.public_model, page.state, page.accepted_at, page.quoted_maximum, page.charge_amount
     FROM (
       SELECT count(*)::int AS calls, coalesce(sum(coalesce(charge_amount, quoted_maximum)), 0) AS total
       FROM unpaid) AS totals
     LEFT JOIN (
       SELECT id, ${microsecondsOf('accepted_at')} AS microseconds, idempotency_key, request_id, operation, public_model,
         state, accepted_at, quoted_maximum, charge_amount
       FROM unpaid WHERE (accepted_at, id) > (${timestampOf('$2')}, $3::uuid)
       ORDER BY accepted_at, id LIMIT $4) AS page ON true
     ORDER BY page.accepted_at, page.id`,
    values: [payer, from.microseconds.toString(), from.id, limit + 1],
  })
  const [first] = rows
  const page = cutPage(
    rows.filter((row): row is Row & CallRow => row.id !== null),
    limit,
  )
  return {
    entries: page.rows.map(unpaidCall),
    next: page.next,
    calls: first?.calls ?? 0,
    total: atomicAmount(BigInt(first?.total ?? 0)),
  }
}

function selectCalls(condition: string): string {
  return `SELECT id, idempotency_key, request_id, operation, public_model, state, accepted_at, quoted_maximum, charge_amount
    FROM jobs WHERE payer = $1 AND ${condition}`
}

function unpaidCall(row: CallRow): UnpaidCall {
  return {
    idempotencyKey: row.idempotency_key,
    requestId: row.request_id,
    operation: row.operation,
    model: row.public_model,
    state: row.state,
    acceptedAt: row.accepted_at,
    quotedMaximum: atomicAmount(BigInt(row.quoted_maximum)),
    charge: row.charge_amount === null ? null : atomicAmount(BigInt(row.charge_amount)),
  }
}
