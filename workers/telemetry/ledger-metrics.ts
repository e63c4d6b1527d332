import { Gauge, type Registry } from 'prom-client'
import type { CountAndTotal, LedgerTotals } from '#shared/ledger/reports/ledger-totals.ts'
import type { ReportsStore } from '#shared/ledger/reports/reports-store.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'

/** A gauge that shows a part of totals, which are read for all gauges of a scrape together. */
interface TotalsGauge<Totals> {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly show: (gauge: Gauge, totals: Totals) => void
}

/** Amounts are atomic USDC (a millionth). */
const GAUGES: readonly TotalsGauge<LedgerTotals>[] = [
  {
    name: 'farebox_queue_jobs',
    help: 'Unfinished jobs by queue: waiting, running or deferred (put_off)',
    labelNames: ['queue', 'state'],
    show: (gauge, { queues }) => {
      for (const [queue, { waiting, running, deferred }] of queues) {
        gauge.set({ queue, state: 'waiting' }, waiting)
        gauge.set({ queue, state: 'running' }, running)
        gauge.set({ queue, state: 'put_off' }, deferred)
      }
    },
  },
  {
    name: 'farebox_queue_oldest_waiting_seconds',
    help: 'Age of the oldest job that is due and waits for a worker; 0 when none waits',
    labelNames: ['queue'],
    show: (gauge, { queues }) => {
      for (const [queue, { oldestWaitingSeconds }] of queues) gauge.set({ queue }, oldestWaitingSeconds)
    },
  },
  {
    name: 'farebox_queue_oldest_deferred_seconds',
    help: 'How long the longest-deferred job has been tried again without progress; 0 when none is deferred',
    labelNames: ['queue'],
    show: (gauge, { queues }) => {
      for (const [queue, { oldestDeferredSeconds }] of queues) gauge.set({ queue }, oldestDeferredSeconds)
    },
  },
  {
    name: 'farebox_open_exposure_usdc_atomic',
    help: 'The most that unfinished jobs may still charge',
    labelNames: [],
    show: (gauge, { openExposure }) => gauge.set(Number(openExposure)),
  },
  {
    name: 'farebox_charged_usdc_atomic',
    help: 'Sum of all charges',
    labelNames: [],
    show: (gauge, { charged }) => gauge.set(Number(charged.total)),
  },
  {
    name: 'farebox_charged_jobs',
    help: 'Number of all charged jobs',
    labelNames: [],
    show: (gauge, { charged }) => gauge.set(charged.count),
  },
  {
    name: 'farebox_absorbed_usdc_atomic',
    help: 'Work without a charge: calls with an unknown outcome or without usable output at their authorized maximum, rejected requests at the minimum charge, withheld and replaced results at their charge, reverted settlements at their gas',
    labelNames: ['reason'],
    show: (gauge, totals) => {
      for (const [reason, { total }] of absorbedByReason(totals)) gauge.set({ reason }, Number(total))
    },
  },
  {
    name: 'farebox_absorbed_jobs',
    help: 'Number of times that work was not charged',
    labelNames: ['reason'],
    show: (gauge, totals) => {
      for (const [reason, { count }] of absorbedByReason(totals)) gauge.set({ reason }, count)
    },
  },
  {
    name: 'farebox_new_payer_exposure_usdc_atomic',
    help: 'What payments that their payers had not covered by earlier ones have open, owe, and caused without a charge in a day; limited by NEW_PAYER_DAILY_LOSS_USDC',
    labelNames: [],
    show: (gauge, { newPayerExposure }) => gauge.set(Number(newPayerExposure)),
  },
  {
    name: 'farebox_jobs_in_review',
    help: 'Jobs that a person must review and has not resolved',
    labelNames: [],
    show: (gauge, { inReview }) => gauge.set(inReview),
  },
  {
    name: 'farebox_resolved_usdc_atomic',
    help: 'Amounts of payments that operators resolved, by outcome',
    labelNames: ['outcome'],
    show: (gauge, { resolved }) => {
      for (const [outcome, { total }] of Object.entries(resolved)) gauge.set({ outcome }, Number(total))
    },
  },
  {
    name: 'farebox_resolved_items',
    help: 'Number of payments that operators resolved, by outcome',
    labelNames: ['outcome'],
    show: (gauge, { resolved }) => {
      for (const [outcome, { count }] of Object.entries(resolved)) gauge.set({ outcome }, count)
    },
  },
]

/** Unknown outcomes are counted by their attempts, which go back further than the record of uncharged work. */
function absorbedByReason({ ambiguous, withheld, uncharged }: LedgerTotals): readonly [string, CountAndTotal][] {
  return [
    ['ambiguous', ambiguous],
    ['withheld', withheld],
    ['empty', uncharged.empty_output],
    ['rejected', uncharged.rejected_request],
    ['replaced', uncharged.replaced_result],
    ['reverted', uncharged.reverted_settlement],
  ]
}

/**
 * Adds the state of the whole system, read from the ledger at each scrape, which survives restarts. Every worker
 * reports the same totals: take the maximum, not the sum. Totals that cannot be read are left out.
 */
export function addLedgerMetrics(registry: Registry, reportsStore: Pick<ReportsStore, 'readLedgerTotals'>): void {
  const read = sharedReading(() => reportsStore.readLedgerTotals())
  const readable: Gauge = new Gauge({
    name: 'farebox_ledger_readable',
    help: '1 when this process could read the totals of the ledger for this scrape, else 0',
    registers: [registry],
    collect: async () => {
      readable.set((await read()) ? 1 : 0)
    },
  })
  addTotals(registry, read, GAUGES)
}

/** Adds gauges of the same totals. Those that cannot be read are left out. */
export function addTotals<Totals>(
  registry: Registry,
  read: () => Promise<Totals | null>,
  gauges: readonly TotalsGauge<Totals>[],
): void {
  for (const { name, help, labelNames, show } of gauges) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: [...labelNames],
      registers: [registry],
      collect: async () => {
        const totals = await read()
        gauge.reset()
        // A reset gauge without labels would report a 0 that was never read.
        if (labelNames.length === 0) gauge.remove()
        if (totals !== null) show(gauge, totals)
      },
    })
  }
}

/** Half of Prometheus's default scrape timeout; slower values are left out of the scrape. */
const DEADLINE_MS = 5000

/** Shares one reading between all gauges of a scrape; `null` when it fails or takes too long. */
export function sharedReading<T>(read: () => Promise<T>): () => Promise<T | null> {
  let current: Promise<T | null> | null = null
  return () => {
    current ??= withDeadline(DEADLINE_MS, read(), () => null)
      .catch(() => null)
      .finally(() => {
        current = null
      })
    return current
  }
}
