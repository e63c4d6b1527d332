import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { createExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import { createPool, type Pool } from '#shared/ledger/pool.ts'
import { readContradictions } from '#shared/ledger/reports/contradictions.ts'
import { readSettlementsOutsideBlocks } from '#shared/ledger/reports/ledger-settlements.ts'
import { readNonceGaps } from '#shared/ledger/reports/nonce-gaps.ts'
import { readPaymentParties } from '#shared/ledger/reports/payment-parties.ts'
import { resolvePeriod } from '#shared/ledger/reports/period.ts'
import { createReportsStore } from '#shared/ledger/reports/reports-store.ts'
import { createRetentionStore } from '#shared/ledger/retention/retention-store.ts'
import { createSettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { LEAST_ID } from '../../../infra/commands/ledger/least-id.ts'
import { signInOperator } from '../console/operator-session.ts'
import { median } from '../measuring/statistics.ts'
import type { Side } from './side.ts'

/** How long something took, each time. */
export interface Reading {
  readonly what: string
  readonly ms: readonly number[]
}

const DAY_MS = 24 * 3600 * 1000
const LEDGER = fileURLToPath(new URL('../../../infra/commands/ledger/main.ts', import.meta.url))
/** Results are kept for a week by default. */
const RETENTION_MS = 7 * DAY_MS

/** As by default; what a sweep reads does not depend on the amounts. */
const BUDGET = { windowSeconds: 3600, perPayer: atomicAmount(0n), maximumForgiven: atomicAmount(0n) }

async function repeat(what: string, times: number, work: () => Promise<unknown>): Promise<Reading> {
  const ms: number[] = []
  // The first time fills caches.
  for (let time = -1; time < times; time++) {
    const startedAt = performance.now()
    await work()
    if (time >= 0) ms.push(performance.now() - startedAt)
  }
  return { what, ms }
}

/** Scrapes the metrics of both processes. */
export async function readScrapes({ metricsPorts }: Side, times: number): Promise<readonly Reading[]> {
  return [
    await repeat('scrape of the worker', times, () => scrape(metricsPorts.worker)),
    await repeat('scrape of the API', times, () => scrape(metricsPorts.api)),
  ]
}

/** Reads the console's first page, its payments and its page of the big payer. */
export async function readPages({ sandbox: { info }, wallets }: Side, times: number): Promise<readonly Reading[]> {
  const [big] = wallets
  if (info.operator === undefined || big === undefined) throw new Error('the side has no console or no wallets')
  const session = await signInOperator(info.operator)
  return [
    await repeat('console: Now', times, () => session.read('/operator')),
    await repeat('console: payments', times, () => session.read('/operator/payments')),
    await repeat('console: page of the big payer', times, () => session.read(`/operator/payers/${big.address}`)),
  ]
}

/** Runs what the sweepers run against the database, when nothing is due. */
export async function readSweeps({ sandbox: { info } }: Side, times: number): Promise<readonly Reading[]> {
  return await withPool(info.databaseUrl, {}, async (pool) => {
    const retention = createRetentionStore(pool)
    const reports = createReportsStore(pool)
    const settlements = createSettlementStore(pool)
    const execution = createExecutionStore(pool, BUDGET)
    const sweeps: Readonly<Record<string, () => Promise<unknown>>> = {
      'take due jobs': () => execution.takeDueJobs(['generated', 'settling'], 200),
      'expire results': () => retention.expireResults(RETENTION_MS, 500),
      'forget expired challenges': () => retention.forgetExpiredChallenges(5000),
      'find expired media': () => retention.findExpiredMedia(200),
      'erase expired uploads': () => retention.eraseExpiredUploads(200),
      'find blocks that are not final': () => settlements.findUnfinalBlocks(0n),
      'read removed settlements': () => settlements.readRemoved(200),
      'read failed settlements': () => settlements.readFailed('own_key', null, 20),
      'roll up totals': () => reports.rollUpTotals(),
      'roll up hours': () => reports.rollUpHours(24),
    }
    const readings: Reading[] = []
    for (const [name, sweep] of Object.entries(sweeps)) readings.push(await repeat(`sweep: ${name}`, times, sweep))
    return readings
  })
}

/** The first of the history's settlement keys. */
const HISTORY_ACCOUNT = { network: 'eip155:8453', facilitator: `0x${'fa'.repeat(19)}00` } as const
const PAGE_OF_COMPARISON = 200
const COMMAND_TIMEOUT_MS = 600_000

/** Runs what the reconciliation of a day reads of the ledger: the chain that it is compared with is not here. */
export async function readReconciliation({ sandbox: { info } }: Side, times: number): Promise<readonly Reading[]> {
  return await withPool(info.databaseUrl, { statementTimeoutMs: COMMAND_TIMEOUT_MS }, async (pool) => {
    const period = await resolvePeriod(pool, {})
    const blocks = { first: 10n ** 12n, last: 10n ** 12n }
    const reads: Readonly<Record<string, () => Promise<unknown>>> = {
      'recipients and keys': () => readPaymentParties(pool),
      contradictions: () => readContradictions(pool, period),
      'nonce gaps of a key': () => readNonceGaps(pool, HISTORY_ACCOUNT, 10n ** 12n, period),
      'all settlements of a day, in pages': () =>
        pagesOf(
          (after) => readSettlementsOutsideBlocks(pool, period, blocks, page(after)),
          (row) => row.settlementId,
        ),
    }
    const readings: Reading[] = []
    for (const [name, read] of Object.entries(reads)) readings.push(await repeat(`ledger: ${name}`, times, read))
    return readings
  })
}

/** Commands have a time limit, and plan each statement by its values; services do not. */
async function withPool<T>(
  databaseUrl: string,
  limits: { readonly statementTimeoutMs?: number },
  work: (pool: Pool) => Promise<T>,
): Promise<T> {
  const pool = createPool({
    connectionString: databaseUrl,
    maximumConnections: 1,
    applicationName: 'farebox bench',
    onError: () => undefined,
    ...limits,
  })
  try {
    return await work(pool)
  } finally {
    await pool.end()
  }
}

/** Runs `npm run ledger` for a day and for a month. */
export async function readLedgerCommands({ sandbox: { info } }: Side, times: number): Promise<readonly Reading[]> {
  const run = async (days: number) => {
    const from = new Date(Date.now() - days * DAY_MS).toISOString()
    const ended = Promise.withResolvers<number | null>()
    const child = spawn(process.execPath, [LEDGER, '--no-chain', '--json', '--from', from], {
      env: { ...process.env, DATABASE_URL: info.databaseUrl },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    child.once('exit', ended.resolve)
    const code = await ended.promise
    if (code !== 0) throw new Error(`the ledger command ended with ${code}`)
  }
  return [
    await repeat('npm run ledger, a day', times, () => run(1)),
    await repeat('npm run ledger, 30 days', 1, () => run(30)),
  ]
}

/** Returns a row for each reading, with both ledgers. */
export function rowsOfReadings(empty: readonly Reading[], full: readonly Reading[]) {
  return full.map(({ what, ms }, index) => ({
    read: what,
    'empty, ms': median(empty[index]?.ms ?? []),
    'full, ms': median(ms),
    'longest, ms': Math.max(...ms),
  }))
}

async function scrape(port: number): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`)
  await response.text()
  if (response.status !== 200) throw new Error(`the scrape: ${response.status}`)
}

function page(after: string) {
  return { after, limit: PAGE_OF_COMPARISON }
}

/** Reads page after page until one is empty. */
async function pagesOf<T>(read: (after: string) => Promise<readonly T[]>, idOf: (row: T) => string): Promise<void> {
  for (let after = LEAST_ID; ;) {
    const last = (await read(after)).at(-1)
    if (last === undefined) return
    after = idOf(last)
  }
}
