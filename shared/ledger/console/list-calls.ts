import type { CallSummary } from '#shared/operators/payment-record.ts'
import type { Sql } from '../pool.ts'
import { BEGINNING, END, microsecondsOf, type PositionRow, positionAt, timestampOf } from '../position.ts'
import { type List, type ListPage, readList } from '../read-list.ts'
import { CALL, type CallRow, callSummary } from './call-row.ts'
import { type CallCriteria, selectCalls } from './select-calls.ts'

/** Which calls are listed: of a half-open period, without a bound where none is given. */
export interface CallFilter extends CallCriteria {
  readonly from?: Date | undefined
  readonly until?: Date | undefined
}

/** Returns calls by the time of their acceptance or their end, newest first. */
export async function listCalls(
  sql: Sql,
  { from, until, ...criteria }: CallFilter,
  page: ListPage,
): Promise<List<CallSummary>> {
  const [oldest, newest] = [from ? positionAt(from) : BEGINNING, until ? positionAt(until) : END]
  return await readList(
    page,
    async ({ limit, after, before }) => {
      const [lower, upper] = [before ?? oldest, after ?? newest]
      const isBack = before !== undefined
      const selected = selectCalls({ ...criteria, columns: CALL, isNewestFirst: !isBack, isAfterLower: isBack })
      const { rows } = await sql.query<CallRow & PositionRow>({
        name: `list_console_calls${selected.suffix}${isBack ? '_back' : ''}`,
        text: `SELECT ${CALL}, ${microsecondsOf(`jobs.${selected.moment}`)} AS microseconds
         FROM (${selected.text}) AS jobs ORDER BY ${selected.order}`,
        values: [
          upper.microseconds.toString(),
          upper.id,
          lower.microseconds.toString(),
          lower.id,
          limit + 1,
          ...selected.values,
        ],
      })
      return rows
    },
    callSummary,
  )
}

/** Returns the ended calls of a payer, newest first. */
export async function listPayerCalls(sql: Sql, payer: string, page: ListPage): Promise<List<CallSummary>> {
  return await readList(
    page,
    async ({ limit, after, before }) => {
      const [position, beyond, order] = before ? [before, '>', ''] : [after ?? END, '<', ' DESC']
      const { rows } = await sql.query<CallRow & PositionRow>({
        name: before ? 'list_console_payer_calls_back' : 'list_console_payer_calls',
        text: `SELECT ${CALL}, ${microsecondsOf('finished_at')} AS microseconds FROM jobs
         WHERE payer = $1 AND finished_at ${beyond}= ${timestampOf('$2')}
           AND (finished_at, id) ${beyond} (${timestampOf('$2')}, $3::uuid)
         ORDER BY finished_at${order}, id${order} LIMIT $4`,
        values: [payer, position.microseconds.toString(), position.id, limit + 1],
      })
      return rows
    },
    callSummary,
  )
}
