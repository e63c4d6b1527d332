import { setTimeout as delay } from 'node:timers/promises'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { type ContestantName, startContestant } from './contestants.ts'
import { createPayers, payAll, signCalls } from './paid-load.ts'
import { type PostgresCounter, type StatementCounts, startPostgresCounter } from './postgres-counter.ts'

const WARM_UP_CALLS = 20
const CONCURRENCY = 16
/** Long enough to measure the cost of sweepers that run once a second, without any call. */
const IDLE_MS = 3000

/** The messages that one paid call causes, without those that idle processes send. */
export interface CallBudget {
  readonly who: ContestantName
  readonly rpcCalls: number
  /** The number of calls of each RPC method. */
  readonly rpcMethods: Readonly<Record<string, number>>
  readonly ledgerStatements: number
  readonly ledgerTransactions: number
  readonly queueStatements: number
  /** The ledger's most frequent statements, with their number per call. */
  readonly statements: readonly (readonly [text: string, times: number])[]
}

/** Counts the messages of paid calls in a separate run, because counting takes more time than the calls. */
export async function measureCallBudget(who: ContestantName, count: number): Promise<CallBudget> {
  let rpc: RpcProxy | undefined
  const databases: PostgresCounter[] = []
  const contestant = await startContestant(who, {
    upstreamDelayMs: 0,
    connections: async (real) => {
      rpc = await startRpcProxy(real.rpcUrl)
      if (real.databaseUrl === '') return { ...real, rpcUrl: rpc.url }
      for (const url of [real.databaseUrl, real.queueUrl]) databases.push(await startPostgresCounter(url))
      const [ledger, queue] = databases
      return { ...real, rpcUrl: rpc.url, databaseUrl: ledger?.url ?? '', queueUrl: queue?.url ?? '' }
    },
  })
  try {
    const payers = await createPayers(contestant.rpcUrl, CONCURRENCY)
    const signed = await signCalls(contestant.baseUrl, payers, WARM_UP_CALLS + count)
    await payAll(contestant.baseUrl, signed.slice(0, WARM_UP_CALLS), CONCURRENCY)
    const take = async (work: () => Promise<unknown>) => {
      const [rpcBefore, startedAt] = [rpc?.calls.length ?? 0, performance.now()]
      for (const database of databases) database.take()
      await work()
      return {
        ms: performance.now() - startedAt,
        rpc: countOf(rpc?.calls.slice(rpcBefore) ?? []),
        databases: databases.map((database) => database.take()),
      }
    }
    await delay(IDLE_MS / 2)
    const idle = await take(() => delay(IDLE_MS))
    const busy = await take(async () => {
      await payAll(contestant.baseUrl, signed.slice(WARM_UP_CALLS), CONCURRENCY)
      // Some statements follow the answer.
      await delay(100)
    })
    const perCall = (counts: StatementCounts, idleCounts: StatementCounts) =>
      new Map(
        [...counts].map(([text, times]) => {
          const idleShare = ((idleCounts.get(text) ?? 0) * busy.ms) / idle.ms
          return [text, Math.max(0, times - idleShare) / count] as const
        }),
      )
    const none: StatementCounts = new Map()
    const ofDatabase = (index: number) => perCall(busy.databases[index] ?? none, idle.databases[index] ?? none)
    const [ledger, queue] = [ofDatabase(0), ofDatabase(1)]
    const rpcMethods = perCall(busy.rpc, idle.rpc)
    return {
      who,
      rpcCalls: sum(rpcMethods),
      rpcMethods: Object.fromEntries(rpcMethods),
      ledgerStatements: sum(ledger),
      ledgerTransactions: ledger.get('BEGIN') ?? 0,
      queueStatements: sum(queue),
      statements: [...ledger].filter(([, times]) => times >= 0.05).toSorted(([, a], [, b]) => b - a),
    }
  } finally {
    await contestant.stop()
    await rpc?.stop()
    await Promise.all(databases.map((database) => database.stop()))
  }
}

/** Returns a call budget as one line of text. */
export function describeBudget({ who, ...budget }: CallBudget): string {
  const { rpcCalls, ledgerStatements, ledgerTransactions, queueStatements } = budget
  const sql = `${ledgerStatements.toFixed(1)} SQL statements (${ledgerTransactions.toFixed(1)} explicit transactions) and ${queueStatements.toFixed(1)} queue statements`
  return `${who}, per paid call: ${rpcCalls.toFixed(1)} RPC calls${who === 'farebox' ? `, ${sql}` : ''}`
}

function countOf(names: readonly string[]): StatementCounts {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return counts
}

function sum(counts: StatementCounts): number {
  return [...counts.values()].reduce((total, times) => total + times, 0)
}
