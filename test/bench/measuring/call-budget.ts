import { setTimeout as delay } from 'node:timers/promises'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { type Contestant, type ContestantName, isOurs, startContestant } from './contestants.ts'
import { type ObservedPostgres, startObservedPostgres } from './observed-postgres.ts'
import { createPayers, payAll, signCalls } from './paid-load.ts'
import { type PostgresCounter, type StatementCounts, startPostgresCounter } from './postgres-counter.ts'
import { readCpuMs } from './process-usage.ts'
import { type StatementTime, statementTimes } from './statement-times.ts'

const PAYERS = 16
/** Enough for each connection to have every statement prepared. */
const WARM_UP_CALLS = 100
/** Long enough to measure the cost of sweepers that run once a second, without any call. */
const IDLE_MS = 3000

/** The messages that one paid call causes, without those that idle processes send. */
export interface CallBudget {
  readonly who: ContestantName
  readonly concurrency: number
  readonly rpcCalls: number
  /** The number of calls of each RPC method. */
  readonly rpcMethods: Readonly<Record<string, number>>
  readonly ledgerStatements: number
  readonly ledgerTransactions: number
  /** Of a queue in PostgreSQL; 0 for one on Redis. */
  readonly queueStatements: number
  /** The ledger's most frequent statements, with their number per call. */
  readonly statements: readonly (readonly [text: string, times: number])[]
  /** PostgreSQL's processor time, with what its statements do not show: commits, messages, background processes. */
  readonly postgresCpuMs: number
  /** PostgreSQL's time by statement, the longest first; empty without a ledger. */
  readonly statementTimes: readonly StatementTime[]
}

/**
 * Counts the messages of paid calls, and measures the ledger's statements, in a separate run: counting takes more time
 * than the calls.
 */
export async function measureCallBudget(who: ContestantName, count: number, concurrency: number): Promise<CallBudget> {
  const stops: (() => Promise<void>)[] = []
  try {
    const postgres = isOurs(who) ? await startObservedPostgres() : undefined
    if (postgres) stops.push(() => postgres.stop())
    let rpc: RpcProxy | undefined
    const counters: PostgresCounter[] = []
    const counted = async (url: string) => {
      if (!url.startsWith('postgres:')) return url
      const counter = await startPostgresCounter(url)
      counters.push(counter)
      return counter.url
    }
    const contestant = await startContestant(who, {
      upstreamDelayMs: 0,
      ...(postgres && { postgres }),
      connections: async (real) => {
        rpc = await startRpcProxy(real.rpcUrl)
        const databaseUrl = await counted(real.databaseUrl)
        return { ...real, rpcUrl: rpc.url, databaseUrl, queueUrl: await counted(real.queueUrl) }
      },
    })
    stops.push(async () => {
      await contestant.stop()
      await rpc?.stop()
      await Promise.all(counters.map((counter) => counter.stop()))
    })
    const observed = { contestant, postgres, counters, rpcCalls: () => rpc?.calls ?? [] }
    return { who, concurrency, ...(await measure(observed, count, concurrency)) }
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

interface Observed {
  readonly contestant: Contestant
  readonly postgres: ObservedPostgres | undefined
  /** Of the ledger, and of a queue in PostgreSQL. */
  readonly counters: readonly PostgresCounter[]
  readonly rpcCalls: () => readonly string[]
}

async function measure(observed: Observed, count: number, concurrency: number) {
  const { contestant, postgres, counters } = observed
  const payers = await createPayers(contestant.rpcUrl, PAYERS)
  const signed = await signCalls(contestant.baseUrl, payers, WARM_UP_CALLS + count)
  await payAll(contestant.baseUrl, signed.slice(0, WARM_UP_CALLS), concurrency)
  await contestant.analyzeTables()
  await delay(IDLE_MS / 2)
  const idle = await observe(observed, () => delay(IDLE_MS))
  const busy = await observe(observed, async () => {
    await payAll(contestant.baseUrl, signed.slice(WARM_UP_CALLS), concurrency)
    // Some statements follow the answer.
    await delay(100)
  })
  const perCall = (all: StatementCounts, idleCounts: StatementCounts) =>
    new Map(
      [...all].map(([text, times]) => {
        const idleShare = ((idleCounts.get(text) ?? 0) * busy.ms) / idle.ms
        return [text, Math.max(0, times - idleShare) / count] as const
      }),
    )
  const none: StatementCounts = new Map()
  const ofDatabase = (index: number) => perCall(busy.counts[index] ?? none, idle.counts[index] ?? none)
  const [ledger, queue] = [ofDatabase(0), ofDatabase(1)]
  const rpcMethods = perCall(busy.rpc, idle.rpc)
  const names = counters[0]?.preparedNames() ?? new Map<string, string>()
  return {
    rpcCalls: sum(rpcMethods),
    rpcMethods: Object.fromEntries(rpcMethods),
    ledgerStatements: sum(ledger),
    ledgerTransactions: ledger.get('BEGIN') ?? 0,
    queueStatements: sum(queue),
    statements: [...ledger].filter(([, times]) => times >= 0.05).toSorted(([, a], [, b]) => b - a),
    postgresCpuMs: busy.cpuMs / count,
    statementTimes: postgres ? await statementTimes(postgres, { busy, idle, calls: count }, names) : [],
  }
}

/** Returns what happened during `work`. */
async function observe({ postgres, counters, rpcCalls }: Observed, work: () => Promise<unknown>) {
  const readTotals = async () => (await postgres?.readTotals()) ?? new Map<never, never>()
  const readCpu = () => (postgres ? readCpuMs({ postgres: postgres.pid }).postgres : 0)
  const before = await readTotals()
  const [rpcBefore, cpuBefore, startedAt] = [rpcCalls().length, readCpu(), performance.now()]
  for (const counter of counters) counter.take()
  await work()
  const [ms, cpuMs] = [performance.now() - startedAt, readCpu() - cpuBefore]
  const counts = counters.map((counter) => counter.take())
  return { ms, cpuMs, counts, rpc: countOf(rpcCalls().slice(rpcBefore)), before, after: await readTotals() }
}

/** Returns a call budget as one line of text. */
export function describeBudget({ who, concurrency, ...budget }: CallBudget): string {
  const { rpcCalls, ledgerStatements, ledgerTransactions, queueStatements, postgresCpuMs } = budget
  const sql = `${ledgerStatements.toFixed(1)} SQL statements (${ledgerTransactions.toFixed(1)} explicit transactions), ${queueStatements.toFixed(1)} queue statements and ${postgresCpuMs.toFixed(2)} ms of PostgreSQL`
  return `${who}, per paid call at ${concurrency}: ${rpcCalls.toFixed(1)} RPC calls${isOurs(who) ? `, ${sql}` : ''}`
}

/** Returns the statements that take the most of PostgreSQL's time, one line of text each. */
export function describeStatementTimes({ statementTimes: times }: CallBudget, longest: number): readonly string[] {
  return times
    .slice(0, longest)
    .map(
      ({ name, executionsPerCall, msPerCall, share }) =>
        `${name}: ${executionsPerCall.toFixed(2)} times, ${msPerCall.toFixed(3)} ms (${(100 * share).toFixed(0)} %)`,
    )
}

function countOf(names: readonly string[]): StatementCounts {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return counts
}

function sum(counts: StatementCounts): number {
  return [...counts.values()].reduce((total, times) => total + times, 0)
}
