import type { JobState } from '#shared/jobs/job.ts'
import type { CallSummary } from '#shared/operators/payment-record.ts'
import type { Sql } from '../pool.ts'
import { BEGINNING, END, microsecondsOf, type PositionRow, positionAt, timestampOf } from '../position.ts'
import { type List, type ListPage, readList } from '../read-list.ts'
import { CALL, type CallRow, callSummary } from './call-row.ts'

/** Which calls are meant, beside the time of their acceptance. */
export interface CallCriteria {
  /** `uncharged`: failed, or with a withheld result. */
  readonly state?: JobState | 'open' | 'uncharged' | undefined
  /** The code that they failed with. */
  readonly code?: string | undefined
  /** Public id. */
  readonly model?: string | undefined
  /** One that was called, by its name. */
  readonly deployment?: string | undefined
  readonly payer?: string | undefined
  /** The lowest charge, in atomic USDC. */
  readonly atLeast?: bigint | undefined
}

export interface CallFilter extends CallCriteria {
  readonly from?: Date | undefined
  readonly until?: Date | undefined
}

const UNFINISHED = "state IN ('accepted', 'generating', 'generated', 'settling')"

/** The condition of each state in the words of its index, so that rare states are not searched for among all calls. */
const CONDITIONS = {
  open: UNFINISHED,
  uncharged: 'failure_code IS NOT NULL',
  accepted: `${UNFINISHED} AND state = 'accepted'`,
  generating: `${UNFINISHED} AND state = 'generating'`,
  generated: `${UNFINISHED} AND state = 'generated'`,
  settling: `${UNFINISHED} AND state = 'settling'`,
  completed: "state = 'completed'",
  failed: "state = 'failed'",
  settlement_failed: "state = 'settlement_failed'",
  review: "state = 'review'",
} as const satisfies Record<NonNullable<CallFilter['state']>, string>

/** By criterion: the condition over `jobs`, given its parameter. */
const CRITERIA = {
  code: (value) => `failure_code = ${value}`,
  model: (value) => `public_model = ${value}`,
  deployment: (value) =>
    `EXISTS (SELECT FROM upstream_attempts WHERE upstream_attempts.job_id = jobs.id AND deployment = ${value})`,
  payer: (value) => `payer = ${value}`,
  atLeast: (value) => `charge_amount >= ${value}::numeric`,
} as const satisfies Record<Exclude<keyof CallCriteria, 'state'>, (value: string) => string>

/**
 * Returns the criteria as conditions that follow others (`AND …`), with the values of their parameters, of which the first
 * has the number `first`, and what distinguishes the statement's name.
 */
export function conditionsOf(criteria: CallCriteria, first: number) {
  const values: string[] = []
  const conditions: string[] = criteria.state === undefined ? [] : [CONDITIONS[criteria.state]]
  let suffix = criteria.state === undefined ? '' : `_${criteria.state}`
  for (const [name, condition] of Object.entries(CRITERIA)) {
    const value = criteria[name as keyof typeof CRITERIA]
    if (value === undefined) continue
    conditions.push(condition(`$${first + values.length}`))
    values.push(value.toString())
    // PostgreSQL cuts names at 63 bytes.
    suffix += `_${name.charAt(0)}`
  }
  return { conditions: conditions.map((condition) => `AND ${condition}`).join(' '), values, suffix }
}

/** Returns calls by the time of their acceptance, newest first. */
export async function listCalls(sql: Sql, filter: CallFilter, page: ListPage): Promise<List<CallSummary>> {
  const [oldest, newest] = [
    filter.from ? positionAt(filter.from) : BEGINNING,
    filter.until ? positionAt(filter.until) : END,
  ]
  const { conditions, values, suffix } = conditionsOf(filter, 6)
  return await readList(
    page,
    async ({ limit, after, before }) => {
      const [lower, upper] = [before ?? oldest, after ?? newest]
      const { rows } = await sql.query<CallRow & PositionRow>({
        name: `list_console_calls${suffix}${before ? '_back' : ''}`,
        text: `SELECT ${CALL}, ${microsecondsOf('accepted_at')} AS microseconds FROM jobs
         WHERE (accepted_at, id) < (${timestampOf('$1')}, $2::uuid)
           AND (accepted_at, id) ${before ? '>' : '>='} (${timestampOf('$3')}, $4::uuid)
           ${conditions}
         ORDER BY ${before ? 'accepted_at, id' : 'accepted_at DESC, id DESC'} LIMIT $5`,
        values: [
          upper.microseconds.toString(),
          upper.id,
          lower.microseconds.toString(),
          lower.id,
          limit + 1,
          ...values,
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
