import { setTimeout as delay } from 'node:timers/promises'
import { parseQueueUrl } from '#shared/jobs/queue-url.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'
import { isConnectionFailure } from './connection-failure.ts'
import { compareSchema } from './migrate.ts'
import type { Pool, Sql } from './pool.ts'

/** Leases and uploads end by the database's clock, challenges and links by the machine's; none of them is shorter than this. */
const LARGEST_SKEW_MS = 60_000
const RETRY_MS = 1000

/** Whether this program and this database fit together. Each throws a `StartFailure` that names DATABASE_URL. */
export interface LedgerCheck {
  /** That the database can be used and has this program's schema. Asked until it is so, and never again: others may migrate. */
  schema(): Promise<void>
  /** That the clocks of the machine and the database agree. */
  clock(): Promise<void>
}

interface CheckedLedger {
  readonly pool: Pool
  readonly databaseUrl: string
  readonly now: () => Date
}

export function createLedgerCheck({ pool, databaseUrl, now }: CheckedLedger): LedgerCheck {
  const { shown } = parseQueueUrl(databaseUrl)
  let isSchemaRight = false
  return {
    schema: async () => {
      if (isSchemaRight) return
      await namingDatabase(shown, () => requireSchema(pool, shown))
      isSchemaRight = true
    },
    clock: () => namingDatabase(shown, () => requireSameClock(pool, now)),
  }
}

/** A database that can only not be reached yet is no failure: `onWait` is told, and it is checked again until it can. */
export async function untilChecked(check: LedgerCheck, onWait: (error: unknown) => void): Promise<void> {
  while (!(await checkedNow(check, onWait))) await delay(RETRY_MS)
}

/** Whether the ledger could be checked; throws when it was and does not fit. */
export async function checkedNow(check: LedgerCheck, onWait: (error: unknown) => void): Promise<boolean> {
  try {
    await check.schema()
    await check.clock()
    return true
  } catch (error) {
    if (error instanceof StartFailure) throw error
    onWait(error)
    return false
  }
}

async function namingDatabase(shown: string, ask: () => Promise<void>): Promise<void> {
  try {
    await ask()
  } catch (error) {
    if (error instanceof StartFailure || isConnectionFailure(error)) throw error
    const reason = error instanceof Error ? error.message.split('\n', 1)[0] : 'unknown'
    throw new StartFailure(`DATABASE_URL: the database at ${shown} cannot be used: ${reason}`, { cause: error })
  }
}

async function requireSchema(sql: Sql, shown: string): Promise<void> {
  const { missing, changed, unknown } = await compareSchema(sql)
  const at = `DATABASE_URL: the schema of the database at ${shown}`
  if (changed.length > 0) throw new StartFailure(`${at} was made by another version of ${changed.join(', ')}`)
  if (unknown.length > 0)
    throw new StartFailure(
      `${at} is newer than this program, which does not know ${unknown.join(', ')}; start a newer one`,
    )
  if (missing.length > 0)
    throw new StartFailure(
      `${at} is older than this program and lacks ${missing.join(', ')}; npm run migrate brings it up`,
    )
}

async function requireSameClock(sql: Sql, now: () => Date): Promise<void> {
  const askedAt = now().getTime()
  const { rows } = await sql.query<{ ms: number }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS ms',
  )
  const answeredAt = now().getTime()
  const theirs = rows[0]?.ms ?? 0
  // The database looked at its clock at some moment between the two.
  const skewMs = theirs < askedAt ? theirs - askedAt : Math.max(0, theirs - answeredAt)
  if (Math.abs(skewMs) <= LARGEST_SKEW_MS) return
  const seconds = Math.round(Math.abs(skewMs) / 1000)
  throw new StartFailure(
    `DATABASE_URL: this machine's clock is ${seconds} s ${skewMs < 0 ? 'ahead of' : 'behind'} the database's; set both by NTP`,
  )
}
