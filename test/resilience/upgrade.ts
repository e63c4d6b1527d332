import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { migrateQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { QUEUE_SCHEMA } from '#shared/adapters/bullmq/postgres-engine.ts'
import { quoted } from '#shared/ledger/role-rights.ts'
import { prepareServiceRole } from '#shared/ledger/service-role.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { migrateAll } from '../../infra/commands/migrate/main.ts'
import { startPostgres } from '../../infra/sandbox/postgres/embedded-postgres.ts'
import { serviceUrlOf } from '../../infra/sandbox/postgres/service-connection.ts'
import type { ServiceName } from '../../infra/sandbox/sandbox-options.ts'
import type { CallRecord } from './checker/ledgers.ts'
import { type CampaignStack, startCampaignStack } from './stack/stack.ts'
import { type Comparison, compareLedgers } from './stack/stack-report.ts'
import { checkOutEarlierVersion, migrateWith } from './upgrade/earlier-version.ts'
import { startSteadyLoad } from './upgrade/steady-load.ts'

/**
 * In the order in which a roll-out replaces them, and a roll-back in reverse: the other process of its kind serves
 * meanwhile, and no worker gets a call with terms that only later versions know, such as the price of cached input.
 */
const PROCESSES: readonly ServiceName[] = ['worker', 'worker-2', 'api', 'api-2']

export interface UpgradeOptions {
  /** A folder with the earlier version, installed. */
  readonly checkout: string
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
 * Serves calls with the earlier version, migrates to this one under load, replaces one process after the other, and then
 * rolls back to the earlier version on the new schema.
 */
export async function runUpgrade({
  checkout,
  callers,
  callsPerPhase,
  onProgress,
}: UpgradeOptions): Promise<UpgradeReport> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-upgrade-'))
  const postgres = await startPostgres({ dataDirectory: join(directory, 'postgres') })
  try {
    await migrateWith(checkout, postgres.connectionString)
    // The sandbox's role of services may not create what BullMQ creates with the first message.
    await migrateQueue(postgres.connectionString)
    await grantEverything(postgres.connectionString)
    const earlier = new Set<ServiceName>(PROCESSES)
    const stack = await startCampaignStack({
      databaseUrl: postgres.connectionString,
      // The earlier version knows neither contract nor prices.
      settlementContract: false,
      deployments: (all) => ({ ...all, deployments: all.deployments.map(({ prices: _prices, ...known }) => known) }),
      rootOf: (name) => (earlier.has(name) ? checkout : undefined),
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
        onProgress?.(`  ${name} now runs ${earlier.has(name) ? 'the earlier version' : 'this version'}`)
      }
      await phase('served by the earlier version on its own schema')
      const applied = await migrateAll(postgres.connectionString)
      await phase(`served by the earlier version after ${applied.length} migrations`)
      for (const name of PROCESSES) {
        earlier.delete(name)
        await replace(name)
      }
      await phase('served by this version')
      for (const name of PROCESSES.toReversed()) {
        earlier.add(name)
        await replace(name)
      }
      await phase('served by the earlier version, rolled back')
      return await judge(stack, await load.stop())
    } finally {
      await stack.stop()
    }
  } finally {
    await postgres.stop()
    await rm(directory, { recursive: true, force: true })
  }
}

/** The earlier version knows no role of its services: this one may do everything, until the migration gives it its rights. */
async function grantEverything(ownerUrl: string): Promise<void> {
  await withConnection({ connectionString: ownerUrl, applicationName: 'farebox upgrade' }, async (pool) => {
    const role = quoted(await prepareServiceRole(pool, serviceUrlOf(ownerUrl)))
    for (const schema of ['public', quoted(QUEUE_SCHEMA)])
      await pool.query(`GRANT ALL ON SCHEMA ${schema} TO ${role}; GRANT ALL ON ALL TABLES IN SCHEMA ${schema} TO ${role};
        GRANT ALL ON ALL SEQUENCES IN SCHEMA ${schema} TO ${role}`)
  })
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

const RELEASED = 'a75f455'

export const HELP = `Usage: npm run campaign -- upgrade [--from ${RELEASED}] [--checkout FOLDER] [--callers 12] [--calls 60]

Serves calls with an earlier version, migrates its database to this version under load, replaces its processes one by
one, and rolls back to the earlier version on the new schema. No call may fail.

  --from      the commit of the earlier version (default: 0.1.0), which this clone's history must contain. It is checked
              out into a temporary folder, with npm ci.
  --checkout  a folder in which that version is installed already, instead of --from
  --callers   concurrent callers
  --calls     calls that must finish in each of the six phases`

/** Runs the command. Returns exit code 1 for a failed call or a violation. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      from: { type: 'string', default: RELEASED },
      checkout: { type: 'string' },
      callers: { type: 'string', default: '12' },
      calls: { type: 'string', default: '60' },
    },
  })
  const checkout = values.checkout ?? (await checkOutEarlierVersion(values.from))
  try {
    const report = await runUpgrade({
      checkout,
      callers: Number(values.callers),
      callsPerPhase: Number(values.calls),
      onProgress: (line) => console.log(line),
    })
    console.log(JSON.stringify(report, null, 2))
    const { failed, violations, stuckJobs } = report
    return failed.length + violations.length + stuckJobs.length === 0 ? 0 : 1
  } finally {
    if (values.checkout === undefined) await rm(checkout, { recursive: true, force: true, maxRetries: 10 })
  }
}
