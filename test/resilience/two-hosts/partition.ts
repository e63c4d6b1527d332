import { setTimeout as delay } from 'node:timers/promises'
import type { CallRecord } from '../checker/ledgers.ts'
import type { CampaignStack } from '../stack/stack.ts'
import { untilReached } from '../stack/until-reached.ts'
import type { SteadyLoad } from '../upgrade/steady-load.ts'

const UNFINISHED = `SELECT id FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')`
const FINISHED = `SELECT id FROM jobs WHERE id = ANY($1) AND state IN ('completed', 'failed', 'settlement_failed')`
const POLL_MS = 100

/** What an event cost the calls that were under way when it began. */
export interface EventCost {
  readonly event: string
  readonly callsUnderWay: number
  /** How these calls ended: at once, or after their request was sent again, by whatever advice. */
  readonly answeredAtOnce: number
  readonly answeredWhenRepeated: number
  /** Those whose first attempt failed uncharged, and that signed once more. */
  readonly signedAgain: number
  readonly failedFinally: number
  readonly jobsUnderWay: number
  /** Seconds until the last of these jobs had ended, in half and in all of the cases. */
  readonly jobSeconds: { readonly half: number; readonly all: number }
  /** Seconds after the end of the event until the host's API was ready. */
  readonly readyAfterSeconds: number
}

export interface CostlyEvent {
  readonly name: string
  readonly forMs: number
  readonly begin: () => Promise<void>
  readonly end: () => Promise<void>
  /** Where the API of the host is reached. */
  readonly apiUrl: string
}

/** Lets an event happen to a host under load, and measures what it cost. */
export async function measureEvent(
  stack: CampaignStack,
  load: SteadyLoad,
  lost: ReadonlySet<CallRecord>,
  { name, forMs, begin, end, apiUrl }: CostlyEvent,
): Promise<EventCost> {
  const underWay = stack.caller.records.filter(({ outcome, nonces }) => outcome === null && nonces.length > 0)
  const noncesBefore = new Map(underWay.map((record) => [record, record.nonces.length]))
  const lostBefore = new Set(lost)
  const jobs = (await stack.sql<{ id: string }>(UNFINISHED)).map(({ id }) => id)
  const beganAt = performance.now()
  await begin()
  const jobEnds = watchJobs(stack, jobs, beganAt)
  await delay(forMs)
  await end()
  const endedAt = performance.now()
  await untilReached(`${apiUrl} is ready`, async () => isReady(apiUrl))
  const readyAfterMs = performance.now() - endedAt
  await untilReached('the calls under way have ended', () => underWay.every(({ outcome }) => outcome !== null))
  const seconds = (await jobEnds).map((ms) => ms / 1000).toSorted((one, other) => one - other)
  // Before the next event callers must be past this one.
  await load.untilFinished(20)
  const repeated = underWay.filter((record) => lost.has(record) && !lostBefore.has(record))
  const released = underWay.filter(({ outcome }) => outcome === 'released')
  return {
    event: name,
    callsUnderWay: underWay.length,
    answeredAtOnce: released.filter((record) => !repeated.includes(record)).length,
    answeredWhenRepeated: released.filter((record) => repeated.includes(record)).length,
    signedAgain: underWay.filter((record) => record.nonces.length > (noncesBefore.get(record) ?? 0)).length,
    failedFinally: underWay.length - released.length,
    jobsUnderWay: jobs.length,
    jobSeconds: { half: rounded(seconds[Math.floor(seconds.length / 2)] ?? 0), all: rounded(seconds.at(-1) ?? 0) },
    readyAfterSeconds: rounded(readyAfterMs / 1000),
  }
}

/** Returns how long after `beganAt` each job had ended. */
async function watchJobs(stack: CampaignStack, jobs: readonly string[], beganAt: number): Promise<readonly number[]> {
  const ends = new Map<string, number>()
  await untilReached('the jobs under way have ended', async () => {
    const rows = await stack.sql<{ id: string }>(FINISHED, [jobs])
    for (const { id } of rows) if (!ends.has(id)) ends.set(id, performance.now() - beganAt)
    await delay(POLL_MS)
    return ends.size === jobs.length
  })
  return [...ends.values()]
}

async function isReady(apiUrl: string): Promise<boolean> {
  return await fetch(`${apiUrl}/readyz`, { signal: AbortSignal.timeout(2000) }).then(
    ({ status }) => status === 200,
    () => false,
  )
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10
}
