import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { type HistoryCall, sampleHistory } from '../support/ledger/history/write-history.ts'
import type { TestSandbox } from '../support/processes/test-sandbox.ts'
import { startHistoryDatabase } from './console/history-database.ts'
import { type OperatorSession, signInOperator } from './console/operator-session.ts'
import { type MeasuredPage, pagesOf } from './console/pages.ts'
import { atMost, type BenchResult, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { createPayers, payAll, signCalls } from './measuring/paid-load.ts'
import { median, percentile } from './measuring/statistics.ts'

const [CALLS, QUICK_CALLS] = [1_000_000, 20_000]
const SAMPLES = 60
const [READS, QUICK_READS] = [40, 3]
const PAYERS = 16
/** Calls are due at this interval whether or not earlier ones have been answered: no load hides behind itself. */
const CALL_EVERY_MS = 150
const CONCURRENCY = 32
/** Short rounds with and without the console alternate, so that other programs disturb both alike. */
const [ROUNDS, QUICK_ROUNDS] = [30, 1]
const [ROUND_CALLS, QUICK_ROUND_CALLS] = [50, 20]
/** A person who opens a page a second, and three consoles that are left open on *Now*, which reads itself again. */
const [PAGE_EVERY_MS, NOW_EVERY_MS] = [1000, 5000 / 3]
const [LONGEST_PAGE_MS, LARGEST_SHARE] = [200, 1.1]

/**
 * Measures the console over a ledger of 1,000,000 calls: how long each page takes while calls are paid for, and how much
 * longer paid calls take while operators read. Without the console means that its process is suspended.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const startedAt = performance.now()
  const postgres = await startHistoryDatabase({ calls: quick ? QUICK_CALLS : CALLS })
  const writtenSeconds = (performance.now() - startedAt) / 1000
  try {
    const sandbox = await startFarebox({ databaseUrl: postgres.connectionString, operator: true })
    try {
      await writeDraft(postgres.connectionString)
      const calls = await sampleHistory(postgres.connectionString, SAMPLES)
      return await measure(sandbox, calls, { quick, writtenSeconds })
    } finally {
      await sandbox.stop()
    }
  } finally {
    await postgres.stop()
  }
})

/** With a draft, the page of the catalog also computes what it would have changed about the last 1,000 calls. */
async function writeDraft(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    const content = { models: { 'textmodel-3.5-flash': { minimum_charge_usd: '0.003' } } }
    await client.query(
      `INSERT INTO configuration_drafts (kind, content, operator, revision) VALUES ('catalog', $1, 'operator', 1)`,
      [JSON.stringify(content)],
    )
  } finally {
    await client.end()
  }
}

async function measure(
  sandbox: TestSandbox,
  calls: readonly HistoryCall[],
  { quick, writtenSeconds }: { quick: boolean; writtenSeconds: number },
): Promise<BenchResult> {
  const { operator } = sandbox.info
  if (operator === undefined) throw new Error('the sandbox has no console')
  const session = await signInOperator(operator)
  const pages = pagesOf(calls)
  const pay = await preparePayments(sandbox)
  await pay(PAYERS)
  const pageMs = await readDuringCalls(session, pages, { pay, reads: quick ? QUICK_READS : READS })
  const paid = { with: [] as number[], without: [] as number[] }
  for (let round = 0; round < (quick ? QUICK_ROUNDS : ROUNDS); round++) {
    const count = quick ? QUICK_ROUND_CALLS : ROUND_CALLS
    const reading = readAsOperators(session, pages, round)
    paid.with.push(...(await pay(count)))
    await reading.stop()
    process.kill(sandbox.pidOf('operator'), 'SIGSTOP')
    try {
      paid.without.push(...(await pay(count)))
    } finally {
      process.kill(sandbox.pidOf('operator'), 'SIGCONT')
    }
  }
  const slowest = Math.max(...pageMs.map(({ ms }) => percentile(ms, 0.95)))
  return {
    rows: [
      ...pageMs.map(({ name, ms }) => row(name, ms)),
      row('paid call, console read', paid.with),
      row('paid call, console suspended', paid.without),
    ],
    ratios: [
      atMost(LONGEST_PAGE_MS, 'ms of the slowest page, 95th percentile', slowest),
      atMost(
        LARGEST_SHARE,
        'paid calls with ÷ without the console, 99th percentiles',
        percentile(paid.with, 0.99) / percentile(paid.without, 0.99),
      ),
    ],
    notes: [`the history was written in ${writtenSeconds.toFixed(0)} s`],
    details: { pages: pageMs, paid },
    limitedBy: 'processor time of PostgreSQL, which pages and calls share',
  }
}

function row(name: string, ms: readonly number[]) {
  return {
    read: name,
    count: ms.length,
    'p50 ms': median(ms),
    'p95 ms': percentile(ms, 0.95),
    'p99 ms': percentile(ms, 0.99),
  }
}

/** Returns a function that pays for calls at a constant rate and returns their times. */
async function preparePayments({ info }: TestSandbox) {
  const payers = await createPayers(info.rpcUrl, PAYERS)
  return async (count: number): Promise<readonly number[]> => {
    const signed = await signCalls(info.baseUrl, payers, count)
    return (await payAll(info.baseUrl, signed, CONCURRENCY, { everyMs: CALL_EVERY_MS })).latenciesMs
  }
}

/** Reads each page again and again, one after the other, while calls are paid for. */
async function readDuringCalls(
  session: OperatorSession,
  pages: readonly MeasuredPage[],
  { pay, reads }: { pay: (count: number) => Promise<unknown>; reads: number },
): Promise<readonly { readonly name: string; readonly ms: readonly number[] }[]> {
  const reading = new AbortController()
  const paying = (async () => {
    while (!reading.signal.aborted) await pay(QUICK_ROUND_CALLS)
  })()
  try {
    const measured = pages.map(({ name, paths }) => ({ name, paths, ms: [] as number[] }))
    // The first reads fill the caches of PostgreSQL and the console.
    for (let turn = -1; turn < reads; turn++)
      for (const { paths, ms } of measured) {
        const taken = await session.read(paths.at(turn % paths.length) ?? '')
        if (turn >= 0) ms.push(taken)
      }
    return measured
  } finally {
    reading.abort()
    await paying
  }
}

/** Reads pages at the pace of people until it is stopped. */
function readAsOperators(session: OperatorSession, pages: readonly MeasuredPage[], seed: number) {
  const stopping = new AbortController()
  const every = async (milliseconds: number, read: (turn: number) => Promise<unknown>) => {
    for (let turn = seed; !stopping.signal.aborted; turn++) {
      const next = delay(milliseconds, undefined, { signal: stopping.signal }).catch(() => undefined)
      await read(turn)
      await next
    }
  }
  const all = pages.flatMap(({ paths }) => paths)
  const readers = Promise.all([
    every(PAGE_EVERY_MS, (turn) => session.read(all[(turn * 37) % all.length] ?? '/operator')),
    every(NOW_EVERY_MS, () => session.read('/operator')),
  ])
  return {
    stop: async () => {
      stopping.abort()
      await readers
    },
  }
}
