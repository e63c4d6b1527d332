import type { JobState } from '#shared/jobs/job.ts'
import { timestampOf } from '../position.ts'

/** Which calls are meant, beside their time. */
export interface CallCriteria {
  /** The moment by which calls lie in a period and are ordered: their acceptance, unless it is their end. */
  readonly by?: 'ended' | undefined
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

type State = NonNullable<CallCriteria['state']>

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
} as const satisfies Record<State, string>

/** By criterion: the condition over `jobs`, given its parameter. */
const CRITERIA = {
  code: (value) => `failure_code = ${value}`,
  model: (value) => `public_model = ${value}`,
  deployment: (value) =>
    `EXISTS (SELECT FROM upstream_attempts WHERE upstream_attempts.job_id = jobs.id AND deployment = ${value})`,
  payer: (value) => `payer = ${value}`,
  atLeast: (value) => `charge_amount >= ${value}::numeric`,
} as const satisfies Record<Exclude<keyof CallCriteria, 'state' | 'by'>, (value: string) => string>

export interface CallSelection extends CallCriteria {
  /** Columns of `jobs`. */
  readonly columns: string
  readonly isNewestFirst: boolean
  /** Whether the lower bound itself is left out. */
  readonly isAfterLower: boolean
}

const FIRST_CRITERION = 6

/**
 * Returns a query of calls between two positions (`$1`, `$2` the upper one, which is left out; `$3`, `$4` the lower
 * one), at most `$5`, in their order; with the column of the moment that they are ordered by, the values of the
 * parameters from `$6` on, and what distinguishes the statement's name.
 */
export function selectCalls({ columns, isNewestFirst, isAfterLower, ...criteria }: CallSelection) {
  const { conditions, values, suffix } = conditionsOf(criteria)
  const moment = criteria.by === 'ended' ? 'finished_at' : 'accepted_at'
  const order = isNewestFirst ? `${moment} DESC, id DESC` : `${moment}, id`
  const callsOf = (state: State | undefined) =>
    `SELECT ${columns} FROM jobs WHERE (${moment}, id) < (${timestampOf('$1')}, $2::uuid)
       AND (${moment}, id) ${isAfterLower ? '>' : '>='} (${timestampOf('$3')}, $4::uuid)
       ${state === undefined ? '' : `AND ${CONDITIONS[state]}`} ${conditions}
     ORDER BY ${order} LIMIT $5`
  if (criteria.by !== 'ended') return { text: callsOf(criteria.state), moment, order, values, suffix }
  // No index has the ends of all calls: each state's calls are read in their order from its own, then put together.
  const branches = endedStates(criteria).map((state) => `(${callsOf(state)})`)
  const text = `SELECT ${columns} FROM (${branches.join(' UNION ALL ')}) AS jobs ORDER BY ${order} LIMIT $5`
  return { text, moment, order, values, suffix }
}

function endedStates({ state, code }: CallCriteria): readonly State[] {
  // Only calls without a charge have a code.
  if (state === 'uncharged' || (state === undefined && code !== undefined)) return ['failed', 'settlement_failed']
  return state === undefined ? ['completed', 'failed', 'settlement_failed', 'review'] : [state]
}

/**
 * Returns the criteria beside the state as conditions that follow others (`AND …`), with their values and the suffix.
 */
export function conditionsOf(criteria: CallCriteria) {
  const values: string[] = []
  const conditions: string[] = []
  // PostgreSQL cuts names at 63 bytes.
  let suffix = `${criteria.by === 'ended' ? '_e' : ''}${criteria.state === undefined ? '' : `_${criteria.state}`}`
  for (const [name, condition] of Object.entries(CRITERIA)) {
    const value = criteria[name as keyof typeof CRITERIA]
    if (value === undefined) continue
    conditions.push(condition(`$${FIRST_CRITERION + values.length}`))
    values.push(value.toString())
    suffix += `_${name.charAt(0)}`
  }
  return { conditions: conditions.map((condition) => `AND ${condition}`).join(' '), values, suffix }
}
