import type { ObservedPostgres, StatementTotals } from './observed-postgres.ts'

/** What PostgreSQL did for one paid call with one of the ledger's statements. */
export interface StatementTime {
  /** The prepared statement's name, or the beginning of the text of one without a name. */
  readonly name: string
  readonly executionsPerCall: number
  /**
   * The time between its start and its end in the server, with planning, triggers and waiting for locks and a processor;
   * without committing, if it is a transaction of its own.
   */
  readonly msPerCall: number
  /** The share in all of the ledger's statements. */
  readonly share: number
}

/** A stretch of time: how long it took, and the totals before and after it. */
interface Stretch {
  readonly ms: number
  readonly before: StatementTotals
  readonly after: StatementTotals
}

/** What is left of an unnamed statement's text. */
const SHOWN_CHARACTERS = 60

/**
 * Returns the statements of `calls` paid calls, those that take the most time first, without what idle processes send.
 * `names` are the names of prepared statements by their text.
 */
export async function statementTimes(
  postgres: Pick<ObservedPostgres, 'identify'>,
  { busy, idle, calls }: { readonly busy: Stretch; readonly idle: Stretch; readonly calls: number },
  names: ReadonlyMap<string, string>,
): Promise<readonly StatementTime[]> {
  const nameOf = new Map<string | undefined, string>()
  for (const [text, name] of names) nameOf.set(await postgres.identify(text), name)
  const idleOf = increases(idle)
  const ofCall = (total: number, idleTotal = 0) => Math.max(0, total - (idleTotal * busy.ms) / idle.ms) / calls
  const perCall = [...increases(busy)].map(([id, { text, executions, ms }]) => {
    const inIdle = idleOf.get(id)
    return {
      name: nameOf.get(id) ?? text.replaceAll(/\s+/g, ' ').slice(0, SHOWN_CHARACTERS),
      executionsPerCall: ofCall(executions, inIdle?.executions),
      msPerCall: ofCall(ms, inIdle?.ms),
    }
  })
  const totalMs = perCall.reduce((sum, { msPerCall }) => sum + msPerCall, 0)
  return perCall
    .filter(({ executionsPerCall }) => executionsPerCall > 0)
    .map((one) => ({ ...one, share: one.msPerCall / totalMs }))
    .toSorted((one, other) => other.msPerCall - one.msPerCall)
}

function increases({ before, after }: Stretch): StatementTotals {
  return new Map(
    [...after].flatMap(([id, { text, executions, ms }]) => {
      const earlier = before.get(id)
      const increase = executions - (earlier?.executions ?? 0)
      return increase > 0 ? [[id, { text, executions: increase, ms: ms - (earlier?.ms ?? 0) }] as const] : []
    }),
  )
}
