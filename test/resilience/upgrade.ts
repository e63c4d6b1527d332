import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type pg from 'pg'
import { createLedgerCheck } from '#shared/ledger/check-schema.ts'
import { createPool } from '#shared/ledger/pool.ts'
import { migrateAll } from '../../infra/commands/migrate/main.ts'
import { startPostgres } from '../../infra/sandbox/postgres/embedded-postgres.ts'
import { serviceUrlOf } from '../../infra/sandbox/postgres/service-connection.ts'
import type { ServiceName } from '../../infra/sandbox/sandbox-options.ts'
import type { CallRecord } from './checker/ledgers.ts'
import { type Comparison, compareLedgers } from './stack/stack-report.ts'
import { type CampaignStack, startCampaignStack } from './stack/stack.ts'
import { untilReached } from './stack/until-reached.ts'
import { createLaterVersion, migrateWith } from './upgrade/later-version.ts'
import { startSteadyLoad } from './upgrade/steady-load.ts'

/**
 * In the order in which a roll-out replaces them, and a roll-back in reverse: the other process of its kind serves
 * meanwhile, and no worker gets a call with terms that only later versions know.
 */
const PROCESSES: readonly ServiceName[] = ['worker', 'worker-2', 'api', 'api-2']

export interface UpgradeOptions {
  readonly callers: number
  /** Calls that must finish in each phase. */
  readonly callsPerPhase: number
  readonly onProgress?: (line: string) => void
}

export interface UpgradeReport extends Pick<Comparison<never>, 'stuckJobs' | 'jobs' | 'transfers' | 'upstreamCalls'> {
  readonly calls: number
  /** Calls whose caller did not get its result. */
  readonly failed: readonly string[]
  /** Calls whose caller had to sign more than once. */
  readonly signedAgain: number
  /** How often callers got each answer, such as `503 overloaded`. */
  readonly answers: Readonly<Record<string, number>>
  readonly violations: readonly string[]
}

/**
 * Serves calls with this version, migrates its database to a made-up 1.1 under load, replaces one process after the other by
 * it, and rolls back to this version on the new schema. A migration that this version does not work with is refused while
 * its processes run, and this version on a schema that has it.
 */
export async function runUpgrade(options: UpgradeOptions): Promise<UpgradeReport> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-upgrade-'))
  const [next, afterNext] = [await createLaterVersion('1.1.0'), await createLaterVersion('1.2.0')]
  const postgres = await startPostgres({ dataDirectory: join(directory, 'postgres') })
  try {
    const ownerUrl = postgres.connectionString
    return await upgrade(options, { next, afterNext, ownerUrl, serviceUrl: serviceUrlOf(ownerUrl) })
  } finally {
    await postgres.stop()
    for (const folder of [directory, next, afterNext])
      await rm(folder, { recursive: true, force: true, maxRetries: 10 })
  }
}

interface Versions {
  readonly next: string
  readonly afterNext: string
  readonly ownerUrl: string
  readonly serviceUrl: string
}

async function upgrade({ callers, callsPerPhase, onProgress }: UpgradeOptions, to: Versions): Promise<UpgradeReport> {
  await migrateAll(to.ownerUrl, { serviceUrl: to.serviceUrl })
  const replaced = new Set<ServiceName>()
  const stack = await startCampaignStack({
    databaseUrl: to.ownerUrl,
    rootOf: (name) => (replaced.has(name) ? to.next : undefined),
  })
  try {
    const load = startSteadyLoad(stack, callers)
    const phase = async (name: string) => {
      await load.untilFinished(callsPerPhase)
      onProgress?.(name)
    }
    const replace = async (name: ServiceName) => {
      process.kill(stack.pidOf(name), 'SIGTERM')
      await stack.restart(name)
      await load.untilFinished(callsPerPhase / PROCESSES.length)
      onProgress?.(`  ${name} now runs ${replaced.has(name) ? '1.1' : '1.0'}`)
    }
    await phase('served by 1.0 on its own schema')
    const migrated = await migrateWith(to.next, to)
    const problems = migrated.exitCode === 0 ? await findUnfinished(to.ownerUrl) : [migrated.output]
    onProgress?.(migrated.output)
    await phase('served by 1.0 on the schema of 1.1')
    for (const name of PROCESSES) {
      replaced.add(name)
      await replace(name)
    }
    await phase('served by 1.1')
    for (const name of PROCESSES.toReversed()) {
      replaced.delete(name)
      await replace(name)
    }
    await phase('served by 1.0, rolled back')
    const refused = await migrateWith(to.afterNext, to)
    onProgress?.(refused.output)
    if (refused.exitCode === 0) problems.push('a migration that running processes do not work with was applied')
    await phase('served by 1.0 after a migration that was refused')
    const report = await judge(stack, await load.stop())
    problems.push(...(await findIncompatible(stack, to)))
    return { ...report, violations: [...report.violations, ...problems] }
  } finally {
    await stack.stop()
  }
}

/** Returns the constraints that are not validated, and the indexes that are not valid. */
async function findUnfinished(ownerUrl: string): Promise<string[]> {
  return await withPool(ownerUrl, async (pool) => {
    const { rows } = await pool.query<{ name: string }>(
      `SELECT conname AS name FROM pg_constraint WHERE NOT convalidated
       UNION ALL SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid`,
    )
    return rows.map(({ name }) => `${name} is not valid after the migration`)
  })
}

/** Stops all processes, applies the migration that was refused, and returns what this version finds wrong about refusing it. */
async function findIncompatible(stack: CampaignStack, to: Versions): Promise<readonly string[]> {
  for (const name of PROCESSES) process.kill(stack.pidOf(name), 'SIGTERM')
  await untilReached(
    'all processes have ended',
    async () => (await stack.sql('SELECT FROM process_reports')).length === 0,
  )
  const { exitCode, output } = await migrateWith(to.afterNext, to)
  if (exitCode !== 0) return [output]
  return await withPool(to.serviceUrl, async (pool) => {
    const check = createLedgerCheck({ pool, databaseUrl: to.serviceUrl, now: () => new Date() })
    return await check.schema().then(
      () => ['this version starts on a schema that it does not work with'],
      (error: unknown) => (String(error).includes('is newer than this program') ? [] : [String(error)]),
    )
  })
}

async function withPool<T>(connectionString: string, work: (pool: pg.Pool) => Promise<T>): Promise<T> {
  const options = { maximumConnections: 1, applicationName: 'farebox upgrade', onError: () => undefined }
  const pool = createPool({ ...options, connectionString })
  try {
    return await work(pool)
  } finally {
    await pool.end()
  }
}

async function judge(stack: CampaignStack, records: readonly CallRecord[]): Promise<UpgradeReport> {
  const { violations, ...compared } = await compareLedgers(stack, records, (violation) => violation)
  const answers = records.flatMap((record) =>
    record.answers.map(({ status, code }) => `${status} ${code ?? ''}`.trim()),
  )
  return {
    ...compared,
    calls: records.length,
    failed: records.filter(({ outcome }) => outcome !== 'released').map(describeCall),
    signedAgain: records.filter(({ nonces }) => nonces.length > 1).length,
    answers: Object.fromEntries(
      Object.entries(Object.groupBy(answers, (answer) => answer)).map(([answer, all]) => [answer, all?.length ?? 0]),
    ),
    violations: violations.map(({ invariant, jobId, detail }) => `${invariant} ${jobId ?? ''} ${detail}`),
  }
}

function describeCall({ callId, outcome, answers, problems }: CallRecord): string {
  const given = answers.map(({ status, code, bodyText }) => `${status} ${code ?? ''} ${status < 400 ? '' : bodyText}`)
  return `${callId} ${outcome}: ${[...given.slice(-3), ...problems].join(' | ')}`
}

export const HELP = `Usage: npm run campaign -- upgrade [--callers 12] [--calls 60]

Serves calls with this version, migrates its database to a made-up 1.1 under load, replaces its processes one by one, and
rolls back to this version on the new schema. Then a migration that this version does not work with must be refused until its
processes have stopped. No call may fail.

  --callers   concurrent callers
  --calls     calls that must finish in each of the seven phases`

/** Runs the command. Returns exit code 1 for a failed call or a violation. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { callers: { type: 'string', default: '12' }, calls: { type: 'string', default: '60' } },
  })
  const report = await runUpgrade({
    callers: Number(values.callers),
    callsPerPhase: Number(values.calls),
    onProgress: (line) => console.log(line),
  })
  console.log(JSON.stringify(report, null, 2))
  const { failed, violations, stuckJobs } = report
  return failed.length + violations.length + stuckJobs.length === 0 ? 0 : 1
}
