import { Counter, type Registry } from 'prom-client'
import type { OperatorStore } from '#shared/ledger/operators/operator-store.ts'
import type { Author } from '#shared/operators/author.ts'

export type SignInOutcome = 'opened' | 'refused' | 'throttled'

/** What changes nothing, but belongs in the audit and into alerts. */
export type SessionEvents = ReturnType<typeof createSessionEvents>

interface EventDependencies {
  readonly metrics: Registry
  readonly actions: Pick<OperatorStore, 'recordEvent'>
  readonly now: () => Date
}

/** Nobody has signed in, so nobody is the author; no account can have this name. */
const STRANGER: Author = { operator: '(not signed in)', source: 'console' }
/** Never the name that was entered: it may be a password in the wrong field. */
const NO_ACCOUNT = '(no such account)'
/** Of one day's events with one subject these are recorded one by one, then the 100th, the 1,000th and so on. */
const FAILURES_ONE_BY_ONE = 20
const DOWNLOADS_ONE_BY_ONE = 99
/** Of an address; an index entry of PostgreSQL is limited. */
const LONGEST_SUBJECT = 300

/**
 * Records and counts such events. However many strangers make, the audit gets some 30 rows a day for each account, and the
 * memory of this process one counter: a row says how many there were on its day.
 */
export function createSessionEvents({ metrics, actions, now }: EventDependencies) {
  const signIns = new Counter({
    name: 'farebox_operator_sign_ins_total',
    help: 'Sign-ins to the console, and passwords that it refused when it asked again, by outcome',
    labelNames: ['outcome'],
    registers: [metrics],
  })
  for (const outcome of ['opened', 'refused', 'throttled'] as const) signIns.inc({ outcome }, 0)
  const downloads = new Counter({
    name: 'farebox_operator_downloads_total',
    help: 'Files that operators saved from the console',
    registers: [metrics],
  })
  const countToday = createDailyCounter(now)
  return {
    /**
     * A sign-in, or a password that an `author` who is signed in was asked for again and that was refused. `account` is `null`
     * for a name that has none. A sign-in that opened a session has its row with the session.
     */
    signIn: async (
      outcome: SignInOutcome,
      account: string | null,
      address: string,
      author: Author = STRANGER,
    ): Promise<void> => {
      signIns.inc({ outcome })
      if (outcome === 'opened') return
      const [action, subject] = [outcome === 'refused' ? 'session.refuse' : 'session.throttle', account ?? NO_ACCOUNT]
      const count = countToday(`${action} ${subject}`)
      if (isRecorded(count, FAILURES_ONE_BY_ONE))
        await actions.recordEvent(author, { action, subject, reason: null, details: { address, today: count } })
    },
    /** A file that an operator saved. */
    download: async (operator: string, url: string): Promise<void> => {
      downloads.inc()
      const count = countToday(`file.download ${operator}`)
      if (isRecorded(count, DOWNLOADS_ONE_BY_ONE))
        await actions.recordEvent(
          { operator, source: 'console' },
          { action: 'file.download', subject: url.slice(0, LONGEST_SUBJECT), reason: null, details: { today: count } },
        )
    },
  }
}

function isRecorded(count: number, oneByOne: number): boolean {
  return count <= oneByOne || Number.isInteger(Math.log10(count))
}

/** Counts by key since midnight, UTC. Keys are accounts, so there are few. */
function createDailyCounter(now: () => Date): (key: string) => number {
  const counts = new Map<string, number>()
  let countedDay = ''
  return (key) => {
    const day = now().toISOString().slice(0, 10)
    if (day !== countedDay) counts.clear()
    countedDay = day
    const count = (counts.get(key) ?? 0) + 1
    counts.set(key, count)
    return count
  }
}
