import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { migrateAll } from '../../infra/commands/migrate/main.ts'
import { startPostgres } from '../../infra/sandbox/postgres/embedded-postgres.ts'
import { openTestLedger, type TestLedger } from '../support/ledger/test-ledger.ts'
import { atLeast, type BenchResult, type Ratio } from './measuring/bench.ts'
import { difference, startCounting } from './settlement/counters.ts'
import { startFreshChain } from './settlement/fresh-chain.ts'
import { type Outcomes, prepareOurs, prepareSdk } from './settlement/settle-all.ts'
import { type BadPaymentsResult, measureBadPayments } from './settlement/with-bad-payments.ts'

/** The size of a worker's connection pool in production with 16 concurrent jobs. */
const DATABASE_CONNECTIONS = 10
const AUTOMINE_PAYMENTS = 300
/** With a block every two seconds, a run takes as long as its rounds; the SDK's take several blocks each. */
const ROUNDS_OF_BLOCKS = { ours: 6, SDK: 1 }
/** The targets: against the SDK on automine, and settlements a second of one key with as many as this at once. */
const LEAST_OF_SDK = 3
const LEAST_PER_SECOND = 110
const MANY = 256
const BLOCK_TIME_SECONDS = 2

interface Setting {
  readonly keys: number
  readonly blockTimeSeconds: number | null
  readonly concurrency: number
}

interface Measurement extends Setting {
  readonly contestant: string
  readonly payments: number
  readonly perSecond: number
  /** Mean number of payments of a transaction. */
  readonly paymentsPerTransaction: number
  readonly rpcCallsEach: number
  readonly sqlStatementsEach: number
  readonly cpuMsEach: number
  readonly outcomes: Outcomes
  /** Transactions left in the node's pool at the end: any means a stuck nonce queue. */
  readonly waitingInPool: number
  /** The machine's load at the end: figures from a busy machine are comparable only within a pair. */
  readonly loadAverage: number
}

/**
 * Measures settlements per second: the durable path of a worker, through the settlement contract, against the SDK's settle,
 * each on a fresh chain, taking turns within one run. Before that, a hundred concurrent settlements of which three fail.
 *
 * `--json` prints the figures as JSON. `--only=ours|SDK`, `--blocks=automine|2`, `--keys=1|4` and `--concurrency=16|64|256` narrow
 * the settings; any of the last three skips the hundred settlements. `--quick` runs a small part.
 */
const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    only: { type: 'string' },
    blocks: { type: 'string' },
    keys: { type: 'string' },
    concurrency: { type: 'string' },
    quick: { type: 'boolean', default: false },
    // For the soak; every measurement receives it.
    seconds: { type: 'string' },
  },
})
if (values.quick) Object.assign(values, { blocks: 'automine', keys: '1', concurrency: '16' })
const narrowed = values.blocks ?? values.keys ?? values.concurrency
const contestants = (['ours', 'SDK'] as const).filter((name) => values.only === undefined || values.only === name)
const settings: readonly Setting[] = [null, BLOCK_TIME_SECONDS]
  .flatMap((blockTimeSeconds) => [1, 4].map((keys) => ({ blockTimeSeconds, keys })))
  .flatMap((setting) => [16, 64, 256].map((concurrency) => ({ ...setting, concurrency })))
  .filter(
    ({ blockTimeSeconds, keys, concurrency }) =>
      [undefined, String(blockTimeSeconds ?? 'automine')].includes(values.blocks) &&
      [undefined, String(keys)].includes(values.keys) &&
      [undefined, String(concurrency)].includes(values.concurrency),
  )
const counts = startCounting()
const measurements: Measurement[] = []
const badPayments: BadPaymentsResult[] = []
await withLedger(async (ledger) => {
  for (const blockTimeSeconds of narrowed === undefined ? [null, BLOCK_TIME_SECONDS] : [])
    for (const contestant of contestants) {
      const result = await measureBadPayments(ledger, contestant, blockTimeSeconds)
      badPayments.push(result)
      if (!values.json) printBadPayments(result, blockTimeSeconds)
    }
  for (const setting of settings)
    for (const contestant of contestants) {
      const measured = await measure(ledger, contestant, setting)
      measurements.push(measured)
      if (!values.json) printRow(measured)
    }
})
if (values.json) console.log(JSON.stringify({ badPayments, measurements }, null, 2))
else process.send?.(summarize())

async function measure(ledger: TestLedger, contestant: 'ours' | 'SDK', setting: Setting): Promise<Measurement> {
  const { keys, blockTimeSeconds, concurrency } = setting
  const payments =
    blockTimeSeconds === null
      ? Math.max(AUTOMINE_PAYMENTS, 2 * concurrency)
      : concurrency * ROUNDS_OF_BLOCKS[contestant]
  const chain = await startFreshChain(keys, blockTimeSeconds)
  try {
    const authorizations = await chain.sign(payments, contestant === 'ours' ? 'contract' : 'keys')
    const { settleAll } =
      contestant === 'ours' ? await prepareOurs(ledger, chain, authorizations) : prepareSdk(chain, authorizations)
    const [before, startedAt] = [counts(), performance.now()]
    const outcomes = await settleAll(concurrency)
    const seconds = (performance.now() - startedAt) / 1000
    const { rpcCalls, sqlStatements, cpuMs } = difference(counts(), before)
    return {
      contestant,
      ...setting,
      payments,
      perSecond: (outcomes['completed'] ?? 0) / seconds,
      paymentsPerTransaction: (outcomes['completed'] ?? 0) / (await chain.countTransactions()),
      rpcCallsEach: rpcCalls / payments,
      sqlStatementsEach: sqlStatements / payments,
      cpuMsEach: cpuMs / payments,
      outcomes,
      waitingInPool: await chain.readPool(),
      loadAverage: loadavg()[0] ?? 0,
    }
  } finally {
    await chain.devnet.stop()
  }
}

function summarize(): BenchResult {
  const ratios = measurements.filter(({ contestant }) => contestant === 'ours').flatMap(ratiosOf)
  const rows = measurements.map(({ blockTimeSeconds, outcomes, ...row }) => ({
    ...row,
    blockTimeSeconds: blockTimeSeconds ?? 0,
    outcomes: describe(outcomes),
  }))
  return {
    rows,
    ratios,
    details: { badPayments },
    limitedBy: 'processor time shared with the chain on automine; the block interval otherwise',
  }
}

/** Compares with the SDK where it was measured, and with the target for one key on blocks. */
function ratiosOf(ours: Measurement): readonly Ratio[] {
  const { keys, blockTimeSeconds, concurrency, perSecond } = ours
  const theirs = measurements.find(
    (other) =>
      other.contestant === 'SDK' &&
      other.keys === keys &&
      other.blockTimeSeconds === blockTimeSeconds &&
      other.concurrency === concurrency,
  )
  const blocks = blockTimeSeconds === null ? 'automine' : `blocks of ${blockTimeSeconds} s`
  const where = `${blocks}, ${keys} keys, concurrency ${concurrency}`
  const what = `settled/s ÷ the SDK’s, ${where}`
  const value = perSecond / (theirs?.perSecond ?? Number.NaN)
  const isCounted = blockTimeSeconds !== null && keys === 1 && concurrency === MANY
  return [
    ...(theirs ? [blockTimeSeconds === null ? atLeast(LEAST_OF_SDK, what, value) : { what, value }] : []),
    ...(isCounted ? [atLeast(LEAST_PER_SECOND, `settled/s, ${where}`, perSecond)] : []),
  ]
}

async function withLedger(work: (ledger: TestLedger) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const postgres = await startPostgres({ dataDirectory: join(directory, 'postgres') })
  try {
    await migrateAll(postgres.connectionString)
    const database = { url: postgres.connectionString, drop: async () => undefined }
    const ledger = openTestLedger(database, DATABASE_CONNECTIONS)
    try {
      await work(ledger)
    } finally {
      await ledger.close()
    }
  } finally {
    await postgres.stop()
    await rm(directory, { recursive: true, force: true })
  }
}

function printBadPayments(result: BadPaymentsResult, blockTimeSeconds: number | null): void {
  const { contestant, outcomes, transfers, accountNonceCount, nextAccountNonce, waitingInPool } = result
  const blocks = blockTimeSeconds === null ? 'automine' : `${blockTimeSeconds} s`
  const nonces = `account nonce ${accountNonceCount} on chain, ${nextAccountNonce ?? 'none'} in the ledger`
  console.log(
    `100 concurrent, 3 of them failing, ${blocks}, ${contestant}: ${describe(outcomes)}; ${transfers} transfers; ${nonces}; ${waitingInPool} in the pool`,
  )
}

function describe(outcomes: Outcomes): string {
  return Object.entries(outcomes)
    .map(([outcome, count]) => `${outcome} ${count}`)
    .join(', ')
}

function printRow(row: Measurement): void {
  if (measurements.length === 1) {
    console.log(
      'blocks    keys  concurrency  who   settled/s  per transaction  RPC calls  SQL statements  CPU ms   load  outcomes',
    )
  }
  const cells = [
    (row.blockTimeSeconds === null ? 'automine' : `${row.blockTimeSeconds} s`).padEnd(8),
    String(row.keys).padStart(5),
    String(row.concurrency).padStart(12),
    ` ${row.contestant}`.padEnd(5),
    row.perSecond.toFixed(1).padStart(10),
    row.paymentsPerTransaction.toFixed(1).padStart(16),
    row.rpcCallsEach.toFixed(1).padStart(10),
    row.sqlStatementsEach.toFixed(1).padStart(15),
    row.cpuMsEach.toFixed(1).padStart(7),
    row.loadAverage.toFixed(1).padStart(6),
    ` ${describe(row.outcomes)}${row.waitingInPool > 0 ? `; ${row.waitingInPool} in the pool` : ''}`,
  ]
  console.log(cells.join(' '))
}
