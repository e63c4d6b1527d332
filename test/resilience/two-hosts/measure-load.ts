import type { ServiceName } from '../../../infra/sandbox/sandbox-options.ts'
import { inParallel } from '../../bench/measuring/in-parallel.ts'
import type { ObservedPostgres } from '../../bench/measuring/observed-postgres.ts'
import { readCpuMs } from '../../bench/measuring/process-usage.ts'
import type { CampaignStack } from '../stack/stack.ts'
import { roleOf } from './host-services.ts'

const CONNECTIONS = `SELECT application_name AS name, count(*)::int AS count FROM pg_stat_activity
  WHERE application_name LIKE 'farebox %' GROUP BY 1`
const SAMPLE_MS = 500

/** What paid chats cost the services, the database and the queue. */
export interface LoadUsage {
  readonly calls: number
  readonly failed: number
  readonly seconds: number
  readonly callsPerSecond: number
  /** Calls for each second of processor time that services, database and queue used together. */
  readonly callsPerCpuSecond: number
  /** Milliseconds of processor time of a call, by who used them. */
  readonly cpuMsPerCall: Readonly<Record<string, number>>
  readonly statementsPerCall: number
  /** The most connections at once, by the name of the program. */
  readonly connections: Readonly<Record<string, number>>
}

export interface LoadOptions {
  readonly services: readonly ServiceName[]
  readonly calls: number
  readonly atOnce: number
}

/** Makes paid chats and measures what they cost. */
export async function measureLoad(
  stack: CampaignStack,
  postgres: ObservedPostgres,
  { services, calls, atOnce }: LoadOptions,
): Promise<LoadUsage> {
  const pids = {
    ...Object.fromEntries(services.map((name) => [name, stack.pidOf(name)])),
    PostgreSQL: postgres.pid,
    Redis: stack.redis?.pid ?? 0,
  }
  const payers = stack.payers.approved
  const most: Record<string, number> = {}
  const sample = async () => {
    for (const { name, count } of await stack.sql<{ name: string; count: number }>(CONNECTIONS))
      most[name] = Math.max(most[name] ?? 0, count)
  }
  const sampling = setInterval(() => void sample().catch(() => undefined), SAMPLE_MS)
  const [before, statementsBefore, startedAt] = [readCpuMs(pids), await countStatements(postgres), performance.now()]
  let failed = 0
  try {
    await inParallel(Array.from({ length: calls }), atOnce, async (_, index) => {
      const payer = payers[index % payers.length]
      if (!payer) throw new Error('the stack has no payers')
      const { outcome } = await stack.caller.start({ kind: 'chat', payer }).finished
      if (outcome !== 'released') failed += 1
    })
  } finally {
    clearInterval(sampling)
  }
  const seconds = (performance.now() - startedAt) / 1000
  const [after, statements] = [readCpuMs(pids), (await countStatements(postgres)) - statementsBefore]
  const cpuMsPerCall: Record<string, number> = {}
  for (const [name, ms] of Object.entries(after)) {
    const who = name === 'PostgreSQL' || name === 'Redis' ? name : roleOf(name as ServiceName)
    cpuMsPerCall[who] = (cpuMsPerCall[who] ?? 0) + (ms - (before[name as keyof typeof before] ?? 0)) / calls
  }
  const total = Object.values(cpuMsPerCall).reduce((sum, ms) => sum + ms, 0)
  return {
    calls,
    failed,
    seconds: rounded(seconds),
    callsPerSecond: rounded(calls / seconds),
    callsPerCpuSecond: rounded(1000 / total),
    cpuMsPerCall: Object.fromEntries(Object.entries(cpuMsPerCall).map(([who, ms]) => [who, rounded(ms)])),
    statementsPerCall: rounded(statements / calls),
    connections: most,
  }
}

async function countStatements(postgres: ObservedPostgres): Promise<number> {
  const totals = await postgres.readTotals()
  return [...totals.values()].reduce((sum, { executions }) => sum + executions, 0)
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10
}
