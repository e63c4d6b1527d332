import type { CallFilter, List, ListPage, ListPosition } from '#shared/operators/money-store.ts'
import type { CallSummary } from '#shared/operators/payment-record.ts'
import {
  BEGINNING,
  cutPage,
  END,
  microsecondsOf,
  type PositionRow,
  positionAt,
  timestampOf,
} from '../account/position.ts'
import type { Sql } from '../pool.ts'
import { CALL, type CallRow, callSummary } from './call-row.ts'

const UNFINISHED = "state IN ('accepted', 'generating', 'generated', 'settling')"

/** The condition of each state in the words of its index, so that rare states are not searched for among all calls. */
const CONDITIONS = {
  open: UNFINISHED,
  accepted: `${UNFINISHED} AND state = 'accepted'`,
  generating: `${UNFINISHED} AND state = 'generating'`,
  generated: `${UNFINISHED} AND state = 'generated'`,
  settling: `${UNFINISHED} AND state = 'settling'`,
  completed: "state = 'completed'",
  failed: "state = 'failed'",
  settlement_failed: "state = 'settlement_failed'",
  review: "state = 'review'",
} as const satisfies Record<NonNullable<CallFilter['state']>, string>

/** Returns calls by the time of their acceptance, newest first. */
export async function listCalls(sql: Sql, filter: CallFilter, page: ListPage): Promise<List<CallSummary>> {
  const before = page.after ?? (filter.until ? positionAt(filter.until) : END)
  const after = filter.from ? positionAt(filter.from) : BEGINNING
  const { rows } = await sql.query<CallRow & PositionRow>({
    name: filter.state === undefined ? 'list_console_calls' : `list_console_calls_${filter.state}`,
    text: `SELECT ${CALL}, ${microsecondsOf('accepted_at')} AS microseconds FROM jobs
     WHERE (accepted_at, id) < (${timestampOf('$1')}, $2::uuid) AND (accepted_at, id) >= (${timestampOf('$3')}, $4::uuid)
       ${filter.state === undefined ? '' : `AND ${CONDITIONS[filter.state]}`}
     ORDER BY accepted_at DESC, id DESC LIMIT $5`,
    values: [before.microseconds.toString(), before.id, after.microseconds.toString(), after.id, page.limit + 1],
  })
  return listOf(rows, page.limit)
}

/** Returns the ended calls of a payer, newest first. */
export async function listPayerCalls(sql: Sql, payer: string, page: ListPage): Promise<List<CallSummary>> {
  const before: ListPosition = page.after ?? END
  const { rows } = await sql.query<CallRow & PositionRow>({
    name: 'list_console_payer_calls',
    text: `SELECT ${CALL}, ${microsecondsOf('finished_at')} AS microseconds FROM jobs
     WHERE payer = $1 AND finished_at <= ${timestampOf('$2')} AND (finished_at, id) < (${timestampOf('$2')}, $3::uuid)
     ORDER BY finished_at DESC, id DESC LIMIT $4`,
    values: [payer, before.microseconds.toString(), before.id, page.limit + 1],
  })
  return listOf(rows, page.limit)
}

function listOf(rows: readonly (CallRow & PositionRow)[], limit: number): List<CallSummary> {
  const page = cutPage(rows, limit)
  return { entries: page.rows.map(callSummary), next: page.next }
}
