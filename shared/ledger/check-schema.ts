import { setTimeout as delay } from 'node:timers/promises'
import { parseQueueUrl } from '#shared/jobs/queue-url.ts'
import { isConnectionFailure } from '#shared/runtime/connection-failure.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'
import { readApplied } from './applied-migrations.ts'
import { readMigrations } from './migration-files.ts'
import type { Pool, Sql } from './pool.ts'

/** Differences between a database's migrations and this version's files, by file name. */
interface SchemaDifference {
  readonly missing: readonly string[]
  readonly changed: readonly string[]
  /** Migrations of a newer version that this version cannot work with. */
  readonly incompatible: readonly string[]
}

/**
 * Leases and uploads expire by the database's clock, challenges and links by the machine's; none lives shorter than
 * this.
 */
const MAXIMUM_SKEW_MS = 60_000
const RETRY_MS = 1000

/** Checks that this program and this database are compatible. Each throws a `StartFailure` that names DATABASE_URL. */
export interface LedgerCheck {
  /**
   * Checks that the database is usable and has this program's schema. Not repeated after a success: a newer version may
   * migrate.
   */
  schema(): Promise<void>
  /** Checks that the clocks of the machine and the database agree. */
  clock(): Promise<void>
}

interface CheckedLedger {
  readonly pool: Pool
  readonly databaseUrl: string
  readonly now: () => Date
}

export function createLedgerCheck({ pool, databaseUrl, now }: CheckedLedger): LedgerCheck {
  const { shown } = parseQueueUrl(databaseUrl)
  let isSchemaChecked = false
  return {
    schema: async () => {
      if (isSchemaChecked) return
      await namingDatabase(shown, () => requireSchema(pool, shown))
      isSchemaChecked = true
    },
    clock: () => namingDatabase(shown, () => requireSameClock(pool, now)),
  }
}

/** Repeats work while the database is unreachable. */
export type UntilReachable = <Result>(work: () => Promise<Result>) => Promise<Result>

/** Returns a function that repeats work while the database is unreachable, reporting each failure to `onWait`. */
export function createUntilReachable(onWait: (error: unknown) => void): UntilReachable {
  return async (work) => {
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!isConnectionFailure(error)) throw error
        onWait(error)
        await delay(RETRY_MS)
      }
    }
  }
}

async function namingDatabase(shown: string, check: () => Promise<void>): Promise<void> {
  try {
    await check()
  } catch (error) {
    if (error instanceof StartFailure || isConnectionFailure(error)) throw error
    const reason = error instanceof Error ? error.message.split('\n', 1)[0] : 'unknown'
    throw new StartFailure(`DATABASE_URL: the database at ${shown} cannot be used: ${reason}`, { cause: error })
  }
}

async function requireSchema(sql: Sql, shown: string): Promise<void> {
  const { missing, changed, incompatible } = await compareSchema(sql)
  const at = `DATABASE_URL: the schema of the database at ${shown}`
  if (changed.length > 0) throw new StartFailure(`${at} was created by a different version of ${changed.join(', ')}`)
  if (incompatible.length > 0)
    throw new StartFailure(
      `${at} is newer than this program, which cannot work with ${incompatible.join(', ')}; start a newer one`,
    )
  if (missing.length > 0)
    throw new StartFailure(`${at} is older than this program and lacks ${missing.join(', ')}; run npm run migrate`)
}

async function requireSameClock(sql: Sql, now: () => Date): Promise<void> {
  const before = now().getTime()
  const { rows } = await sql.query<{ ms: number }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS ms',
  )
  const after = now().getTime()
  const databaseTime = rows[0]?.ms ?? 0
  // The database read its clock at some time between the two.
  const skewMs = databaseTime < before ? databaseTime - before : Math.max(0, databaseTime - after)
  if (Math.abs(skewMs) <= MAXIMUM_SKEW_MS) return
  const seconds = Math.round(Math.abs(skewMs) / 1000)
  throw new StartFailure(
    `DATABASE_URL: this machine's clock is ${seconds} s ${skewMs < 0 ? 'ahead of' : 'behind'} the database's; synchronize both by NTP`,
  )
}

/**
 * Compares a database's migrations with this version's files, read-only. A database that was never migrated lacks all of
 * them. A migration of a newer version is tolerated when its own record says that programs as old as this one work with
 * it: such a program can start during a roll-out of the newer version, and after it was rolled back.
 */
async function compareSchema(sql: Sql): Promise<SchemaDifference> {
  const migrations = await readMigrations()
  const applied = await readApplied(sql)
  const ours = new Set(migrations.map(({ name }) => name))
  return {
    missing: migrations.filter(({ name }) => !applied.has(name)).map(({ name }) => name),
    changed: migrations
      .filter(({ name, digest }) => applied.has(name) && applied.get(name)?.digest !== digest)
      .map(({ name }) => name),
    incompatible: [...applied]
      .filter(([name, { compatibleFrom }]) => !ours.has(name) && !(compatibleFrom !== null && ours.has(compatibleFrom)))
      .map(([name]) => name)
      .toSorted(),
  }
}
