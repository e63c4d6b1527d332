import { setTimeout as delay } from 'node:timers/promises'
import type { ServiceName } from '../../../infra/sandbox/sandbox-options.ts'
import { inParallel } from '../../bench/measuring/in-parallel.ts'
import type { ObservedPostgres } from '../../bench/measuring/observed-postgres.ts'
import { mapValues, readCpuMs } from '../../bench/measuring/process-usage.ts'
import type { CampaignStack } from '../stack/stack.ts'
import { roleOf } from './host-services.ts'

const CONNECTIONS = `SELECT application_name AS name, count(*)::int AS count FROM pg_stat_activity
  WHERE application_name LIKE 'farebox %' GROUP BY 1`
const SAMPLE_MS = 500
/** How long the services are watched without a call. */
const IDLE_MS = 10_000

/** Milliseconds of processor time, by who used them, and statements. */
interface Used {
  readonly cpuMs: Readonly<Record<string, number>>
  readonly statements: number
}

/** What paid chats cost the services, the database and the queue, beyond what these use without any. */
export interface LoadUsage {
  readonly calls: number
  readonly failed: number
  readonly callsPerSecond: number
  /** Calls for each second of processor time of services, database and queue together. */
  readonly callsPerCpuSecond: number
  readonly perCall: Used
  readonly perIdleSecond: Used
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
  const meter = () => readMeter(stack, postgres, services)
  const atRest = await meter()
  await delay(IDLE_MS)
  const began = await meter()
  const perIdleSecond = perUnit(atRest, began, (began.atMs - atRest.atMs) / 1000)
  const connections = watchConnections(stack)
  const failed = await makeCalls(stack, calls, atOnce)
  const ended = await meter()
  const seconds = (ended.atMs - began.atMs) / 1000
  const whole = perUnit(began, ended, calls)
  const idle = seconds / calls
  const perCall: Used = {
    cpuMs: mapValues(whole.cpuMs, (ms, who) => ms - (perIdleSecond.cpuMs[who] ?? 0) * idle),
    statements: whole.statements - perIdleSecond.statements * idle,
  }
  const totalMs = Object.values(perCall.cpuMs).reduce((sum, ms) => sum + ms, 0)
  return {
    calls,
    failed,
    callsPerSecond: rounded(calls / seconds),
    callsPerCpuSecond: rounded(1000 / totalMs),
    perCall: roundedUsed(perCall),
    perIdleSecond: roundedUsed(perIdleSecond),
    connections: connections.stop(),
  }
}

/** Makes paid chats, so many at once, and returns how many did not get their result. */
async function makeCalls(stack: CampaignStack, calls: number, atOnce: number): Promise<number> {
  const payers = stack.payers.approved
  let failed = 0
  await inParallel(Array.from({ length: calls }), atOnce, async (_, index) => {
    const payer = payers[index % payers.length]
    if (!payer) throw new Error('the stack has no payers')
    const { outcome } = await stack.caller.start({ kind: 'chat', payer }).finished
    if (outcome !== 'released') failed += 1
  })
  return failed
}

interface Meter extends Used {
  readonly atMs: number
}

async function readMeter(
  stack: CampaignStack,
  postgres: ObservedPostgres,
  services: readonly ServiceName[],
): Promise<Meter> {
  const pids = Object.fromEntries([
    ...services.map((name) => [name, stack.pidOf(name)]),
    ['PostgreSQL', postgres.pid],
    ['Redis', stack.redis?.pid ?? 0],
  ]) as Record<string, number>
  const cpuMs: Record<string, number> = {}
  for (const [name, ms] of Object.entries(readCpuMs(pids))) {
    const who = services.includes(name as ServiceName) ? roleOf(name as ServiceName) : name
    cpuMs[who] = (cpuMs[who] ?? 0) + ms
  }
  const totals = await postgres.readTotals()
  const statements = [...totals.values()].reduce((sum, { executions }) => sum + executions, 0)
  return { atMs: performance.now(), cpuMs, statements }
}

function perUnit(before: Used, after: Used, units: number): Used {
  return {
    cpuMs: mapValues(after.cpuMs, (ms, who) => (ms - (before.cpuMs[who] ?? 0)) / units),
    statements: (after.statements - before.statements) / units,
  }
}

/** Samples the connections of the services until it is stopped, and then returns the most of each program. */
function watchConnections(stack: CampaignStack): { stop(): Readonly<Record<string, number>> } {
  const most: Record<string, number> = {}
  const sample = async () => {
    for (const { name, count } of await stack.sql<{ name: string; count: number }>(CONNECTIONS))
      most[name] = Math.max(most[name] ?? 0, count)
  }
  const sampling = setInterval(() => void sample().catch(() => undefined), SAMPLE_MS)
  return {
    stop: () => {
      clearInterval(sampling)
      return most
    },
  }
}

function roundedUsed({ cpuMs, statements }: Used): Used {
  return { cpuMs: mapValues(cpuMs, rounded), statements: rounded(statements) }
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10
}
