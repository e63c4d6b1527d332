import { askPrices, compare, cpuMs, pay, rateRatio, rowsOf } from './ledger-size/calls.ts'
import { type Ledger, openEmptyLedger, openFullLedger } from './ledger-size/ledgers.ts'
import {
  type Reading,
  readLedgerCommands,
  readPages,
  readReconciliation,
  readScrapes,
  readSweeps,
  rowsOfReadings,
} from './ledger-size/readings.ts'
import { type Side, startSide } from './ledger-size/side.ts'
import { readIndexSizes, readSizes } from './ledger-size/sizes.ts'
import { readStatements, slowerStatements } from './ledger-size/statements.ts'
import { atLeast, atMost, type BenchResult, type Ratio, runBench } from './measuring/bench.ts'
import { renderRows } from './measuring/render-rows.ts'
import { median } from './measuring/statistics.ts'

const [CALLS, QUICK_CALLS] = [10_000_000, 20_000]
const [ROUNDS, QUICK_ROUNDS] = [12, 1]
const [PAID_CALLS, QUICK_PAID_CALLS] = [300, 32]
const [UNPAID_SECONDS, QUICK_UNPAID_SECONDS] = [4, 1]
const [READS, QUICK_READS] = [9, 1]
/** Of what takes seconds. */
const LONG_READS = 3
const [LEAST_RATIO, LONGEST_SCRAPE_MS, LONGEST_LEDGER_MS] = [0.95, 100, 10_000]

interface Plan {
  readonly calls: number
  readonly rounds: number
  readonly paidCalls: number
  readonly unpaidSeconds: number
  readonly reads: number
}

/** Compares a farebox over a ledger of 10 million calls with one over an empty ledger, in turns. */
await runBench(async ({ quick, calls, directory }): Promise<BenchResult> => {
  const plan: Plan = quick
    ? {
        calls: calls ?? QUICK_CALLS,
        rounds: QUICK_ROUNDS,
        paidCalls: QUICK_PAID_CALLS,
        unpaidSeconds: QUICK_UNPAID_SECONDS,
        reads: QUICK_READS,
      }
    : { calls: calls ?? CALLS, rounds: ROUNDS, paidCalls: PAID_CALLS, unpaidSeconds: UNPAID_SECONDS, reads: READS }
  await using stack = new AsyncDisposableStack()
  const opened = <T extends { stop(): Promise<void> }>(one: T) => stack.adopt(one, (each) => each.stop())
  const ledgers = { empty: opened(await openEmptyLedger()), full: opened(await openFullLedger(plan.calls, directory)) }
  const empty = opened(await startSide('empty', ledgers.empty.postgres))
  const full = opened(await startSide('full', ledgers.full.postgres))
  return await measure(plan, ledgers, { empty, full })
})

async function measure(
  plan: Plan,
  ledgers: { readonly empty: Ledger; readonly full: Ledger },
  { empty, full }: { readonly empty: Side; readonly full: Side },
): Promise<BenchResult> {
  const sides = [empty, full]
  const before = await readSizes(full.database)
  const indexes = await readIndexSizes(full.database)
  const paid = await compare('paid, many payers', sides, plan.rounds, (side) =>
    pay(side, side.wallets.slice(1), plan.paidCalls),
  )
  const paidByBig = await compare('paid, the payer of a tenth', sides, plan.rounds, (side) =>
    pay(side, side.wallets.slice(0, 1), plan.paidCalls),
  )
  const unpaid = await compare('unpaid 402', sides, plan.rounds, (side) => askPrices(side, plan.unpaidSeconds))
  const readings: { empty: Reading[]; full: Reading[] } = { empty: [], full: [] }
  for (const read of [readScrapes, readSweeps, readPages])
    for (const side of sides) readings[side.name].push(...(await read(side, plan.reads)))
  for (const read of [readLedgerCommands, readReconciliation])
    for (const side of sides) readings[side.name].push(...(await read(side, Math.min(LONG_READS, plan.reads))))
  const msOf = (what: string) => median(readings.full.find((reading) => reading.what === what)?.ms ?? [])
  const comparisons = [paid, paidByBig, unpaid]
  const ratios: Ratio[] = [
    ...comparisons.map((one) => atLeast(LEAST_RATIO, `${one.what}: calls/s, full ÷ empty`, rateRatio(one))),
    ...comparisons.map((one) =>
      atMost(1 / LEAST_RATIO, `${one.what}: CPU ms, full ÷ empty`, cpuMs(one, 'full') / cpuMs(one, 'empty')),
    ),
    atMost(LONGEST_SCRAPE_MS, 'ms of the worker’s scrape', msOf('scrape of the worker')),
    atMost(LONGEST_LEDGER_MS, 'ms of npm run ledger for a day', msOf('npm run ledger, a day')),
  ]
  const statements = slowerStatements(
    await readStatements(ledgers.empty.postgres.connectionString),
    await readStatements(ledgers.full.postgres.connectionString),
  )
  const sizes = before.map(({ table, rows, tableBytes, indexBytes }) => ({
    table,
    rows,
    'bytes a call': tableBytes / plan.calls,
    'of its indexes': indexBytes / plan.calls,
  }))
  const starts = [...full.startMs].map(([what, ms]) => ({
    start: what,
    'empty, ms': empty.startMs.get(what) ?? Number.NaN,
    'full, ms': ms,
  }))
  return {
    rows: comparisons.flatMap(rowsOf),
    ratios,
    notes: [
      renderRows(rowsOfReadings(readings.empty, readings.full)),
      renderRows(starts),
      renderRows(sizes.slice(0, 12)),
      renderRows(indexes.slice(0, 20).map(({ index, bytes }) => ({ index, 'bytes a call': bytes / plan.calls }))),
      renderRows(statements),
      ...ledgers.full.migrations,
      `the history was written in ${ledgers.full.writtenSeconds.toFixed(0)} s`,
    ],
    figures: {
      ledgerCalls: plan.calls,
      paidRatio: rateRatio(paid),
      unpaidRatio: rateRatio(unpaid),
      scrapeMs: msOf('scrape of the worker'),
      ledgerDayMs: msOf('npm run ledger, a day'),
    },
    details: { comparisons, readings, sizes, indexes, statements, migrations: ledgers.full.migrations },
    limitedBy: 'processor time, which neither ledger changes much; reports of long periods by reading their rows',
  }
}
