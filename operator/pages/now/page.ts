import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { GAS_WARNING_SETTLEMENTS } from '#shared/catalog/fee-limit.ts'
import type { GasReader } from '#shared/chain/settlement/gas-reader.ts'
import type { ProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import type { MoneyStore } from '#shared/ledger/console/money-store.ts'
import type { LedgerDay } from '#shared/ledger/console/read-days.ts'
import type { LedgerHour } from '#shared/ledger/console/read-hours.ts'
import type { LedgerTotals } from '#shared/ledger/reports/ledger-totals.ts'
import type { ReportsStore } from '#shared/ledger/reports/reports-store.ts'
import type { ResolutionStore } from '#shared/ledger/resolutions/resolution-store.ts'
import type { ItemRecord } from '#shared/operators/item.ts'
import type { SeenProcess } from '#shared/operators/process-report.ts'
import { type Chart, chartsOver, seconds } from '../../rendering/chart.ts'
import { addPage } from '../../rendering/page.ts'
import { DAY_MS, dayOf } from '../../rendering/utc-day.ts'
import { withResult } from '../ledger/day-result.ts'
import { type Condition, illDeployments, judgeMoney, judgePeople } from './conditions.ts'

export interface NowPageDependencies {
  readonly totals: Pick<ReportsStore, 'readLedgerTotals' | 'readSettlementTotals'>
  readonly money: MoneyStore
  readonly resolutions: ResolutionStore
  readonly processes: Pick<ProcessReportStore, 'readProcesses'>
  readonly gas: GasReader
  /** The addresses of the settlement keys. */
  readonly facilitators: readonly `0x${string}`[]
  readonly now: () => Date
}

/** Adds the start page: is money stuck, who needs a person, which provider is ill, what was earned and absorbed. */
export function addNowPages(app: FastifyInstance, dependencies: NowPageDependencies): void {
  const readCharts = keptForAMinute(dependencies)
  addPage(app, {
    path: '/operator',
    query: z.object({}),
    isLive: true,
    read: async () => {
      const [data, charts] = await Promise.all([readNow(dependencies), readCharts()])
      return { title: 'Now', view: 'now/now', hasCharts: true, data: { ...data, charts } }
    },
  })
}

const HOUR_MS = 3_600_000
const KEPT_MS = 60_000

/** Draws the last 24 hours. Kept for a minute, since the page is read every few seconds and a day may have a million calls. */
function keptForAMinute({ money, now }: NowPageDependencies): () => Promise<readonly Chart[]> {
  let kept: { readonly charts: Promise<readonly Chart[]>; readonly until: number } | null = null
  return async () => {
    if (kept === null || kept.until <= now().getTime()) {
      const until = new Date((Math.floor(now().getTime() / HOUR_MS) + 1) * HOUR_MS)
      const reading = money.readHours({ from: new Date(until.getTime() - DAY_MS), until }).then(chartsOf)
      const mine = { charts: reading, until: now().getTime() + KEPT_MS }
      kept = mine
      // A failure is not kept.
      reading.catch(() => {
        if (kept === mine) kept = null
      })
    }
    return await kept.charts
  }
}

function chartsOf(hours: readonly LedgerHour[]): readonly Chart[] {
  const chart = chartsOver(hours.map(({ startedAt }) => startedAt))
  const dollars = (amount: (hour: LedgerHour) => bigint) => hours.map((hour) => Number(amount(hour)) / 1e6)
  return [
    chart('Calls by hour', 'calls', [
      { label: 'Completed', tone: 'good', values: hours.map(({ completed }) => completed) },
      { label: 'Failed', tone: 'bad', values: hours.map(({ failed }) => failed) },
    ]),
    chart('Earned against cost', 'USDC', [
      { label: 'Earned', tone: 'good', values: dollars(({ earned }) => earned) },
      { label: 'Vendors and gas', tone: 'bad', values: dollars(({ cost }) => cost) },
    ]),
    chart('99 of 100 paid calls end within', 's', [
      { label: '99th percentile', tone: 'accent', values: hours.map(({ p99Ms }) => seconds(p99Ms)) },
    ]),
  ]
}

/** More are on the page of all items. */
const SHOWN_ITEMS = 5

async function readNow(dependencies: NowPageDependencies) {
  const { totals, money, resolutions, processes, now } = dependencies
  const midnight = new Date(Math.floor(now().getTime() / DAY_MS) * DAY_MS)
  const period = { from: midnight, until: new Date(midnight.getTime() + DAY_MS) }
  const [[today], failures, ledger, settlements, items, seen, keys] = await Promise.all([
    money.readDays(period),
    money.readFailures(period),
    totals.readLedgerTotals(),
    totals.readSettlementTotals(),
    readItems(resolutions),
    processes.readProcesses(),
    readKeys(dependencies),
  ])
  const running = seen.filter(({ isRunning }) => isRunning)
  return {
    money: judgeMoney(settlements),
    people: judgePeople(ledger, settlements),
    items,
    ill: illDeployments(running),
    today: amountsOf(today),
    day: dayOf(midnight),
    failures: { ...failures, share: failures.ended === 0 ? 0 : failures.failed / failures.ended },
    ledger,
    settlements,
    queues: queuesOf(ledger, running),
    keys,
    processes: countProcesses(running),
  }
}

/** Debts are left out: their payers end them by paying. */
const URGENT_KINDS = ['review', 'settlement', 'unknown_settlement'] as const

async function readItems(resolutions: ResolutionStore): Promise<readonly ItemRecord[]> {
  const lists = await Promise.all(
    URGENT_KINDS.map((kind) => resolutions.openItems({ kind }, { limit: SHOWN_ITEMS, after: null })),
  )
  const items = lists.flatMap(({ entries }) => entries)
  return items.toSorted((one, other) => one.since.getTime() - other.since.getTime()).slice(0, SHOWN_ITEMS)
}

const NOTHING = { count: 0, amount: 0n }

function amountsOf(day: LedgerDay | undefined) {
  return {
    earned: day?.charged ?? NOTHING,
    absorbed: day?.uncharged ?? NOTHING,
    gas: day?.settlementGas ?? 0n,
    vendors: day?.vendorCost ?? 0n,
    /** As the ledger has it as the result of the day. */
    margin: day ? withResult(day).result : 0n,
  }
}

type Tone = Condition['tone']

interface SettlementKey {
  readonly address: string
  /** `null` while no node answers. */
  readonly gas: { readonly balanceWei: bigint; readonly settlementsLeft: number } | null
  readonly tone: Tone
}

async function readKeys({ gas, facilitators }: NowPageDependencies): Promise<SettlementKey[]> {
  return await Promise.all(
    facilitators.map(async (address): Promise<SettlementKey> => {
      const read = await gas.readGas(address).catch(() => null)
      return { address, gas: read, tone: toneOfKey(read?.settlementsLeft ?? null) }
    }),
  )
}

function toneOfKey(settlementsLeft: number | null): Tone {
  if (settlementsLeft === null) return 'warning'
  if (settlementsLeft === 0) return 'bad'
  return settlementsLeft < GAS_WARNING_SETTLEMENTS ? 'warning' : 'good'
}

function queuesOf({ queues }: LedgerTotals, running: readonly SeenProcess[]) {
  return [...queues].map(([name, totals]) => {
    const reports = running.flatMap(({ report }) => report.queues?.[name] ?? [])
    return {
      name,
      ...totals,
      workers: reports.length,
      places: reports.reduce((sum, { limit }) => sum + limit, 0),
      isPaused: reports.some(({ isPaused }) => isPaused),
    }
  })
}

function countProcesses(running: readonly SeenProcess[]) {
  const countOf = (kind: SeenProcess['kind']) => running.filter((process) => process.kind === kind).length
  return { api: countOf('api'), worker: countOf('worker'), operator: countOf('operator') }
}
