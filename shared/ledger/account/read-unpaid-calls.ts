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
import { readRows } from '../read-rows.ts'

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

type CallRow = PositionRow & UnpaidCall

/** Every row repeats the totals; a list without entries is one row without an id. */
type Row = Pick<UnpaidCalls, 'calls' | 'total'> & (CallRow | { readonly id: null })

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
  const rows = await readRows<Row>(sql, {
    name,
    text: `WITH unpaid AS MATERIALIZED (${conditions.map(selectCalls).join(' UNION ALL ')})
     SELECT totals.calls, totals.total, page.id, page.microseconds, page.idempotency_key AS "idempotencyKey",
       page.request_id AS "requestId", page.operation, page.public_model AS model, page.state,
       page.accepted_at AS "acceptedAt", page.quoted_maximum AS "quotedMaximum", page.charge_amount AS charge
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
  const [{ calls, total } = { calls: 0, total: atomicAmount(0n) }] = rows
  const page = cutPage(
    rows.filter((row): row is Row & CallRow => row.id !== null),
    limit,
  )
  return {
    entries: page.rows.map(unpaidCall),
    next: page.next,
    calls,
    total,
  }
}

function selectCalls(condition: string): string {
  return `SELECT id, idempotency_key, request_id, operation, public_model, state, accepted_at, quoted_maximum, charge_amount
    FROM jobs WHERE payer = $1 AND ${condition}`
}

function unpaidCall({ idempotencyKey, requestId, operation, model, state, ...row }: CallRow): UnpaidCall {
  const { acceptedAt, quotedMaximum, charge } = row
  return { idempotencyKey, requestId, operation, model, state, acceptedAt, quotedMaximum, charge }
}
