import { Gauge, type Registry } from 'prom-client'
import type { LedgerFiguresStore, LedgerTotals } from '#shared/jobs/ledger-figures.ts'
import { sharedReading } from './shared-reading.ts'

interface LedgerGauge {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly show: (gauge: Gauge, figures: LedgerTotals) => void
}

/** Amounts are atomic USDC (a millionth). */
const gauges: readonly LedgerGauge[] = [
  {
    name: 'farebox_queue_jobs',
    help: 'Unfinished jobs by queue: waiting, running, put off',
    labelNames: ['queue', 'state'],
    show: (gauge, { queues }) => {
      for (const [queue, { waiting, running, putOff }] of queues) {
        gauge.set({ queue, state: 'waiting' }, waiting)
        gauge.set({ queue, state: 'running' }, running)
        gauge.set({ queue, state: 'put_off' }, putOff)
      }
    },
  },
  {
    name: 'farebox_queue_oldest_waiting_seconds',
    help: 'Since when the oldest job that waits for a worker is due; 0 when none waits',
    labelNames: ['queue'],
    show: (gauge, { queues }) => {
      for (const [queue, { oldestWaitingSeconds }] of queues) gauge.set({ queue }, oldestWaitingSeconds)
    },
  },
  {
    name: 'farebox_open_exposure_usdc_atomic',
    help: 'What unfinished jobs may still collect',
    labelNames: [],
    show: (gauge, { openExposure }) => gauge.set(Number(openExposure)),
  },
  {
    name: 'farebox_charged_usdc_atomic',
    help: 'All charges since the beginning',
    labelNames: [],
    show: (gauge, { charged }) => gauge.set(Number(charged.total)),
  },
  {
    name: 'farebox_charged_jobs',
    help: 'All charged jobs since the beginning',
    labelNames: [],
    show: (gauge, { charged }) => gauge.set(charged.count),
  },
  {
    name: 'farebox_absorbed_usdc_atomic',
    help: 'Upstream work without a charge: calls of unknown outcome at what was authorized, withheld results at their charge',
    labelNames: ['reason'],
    show: (gauge, { ambiguous, withheld }) => {
      gauge.set({ reason: 'ambiguous' }, Number(ambiguous.total))
      gauge.set({ reason: 'withheld' }, Number(withheld.total))
    },
  },
  {
    name: 'farebox_absorbed_jobs',
    help: 'How often upstream work was not charged',
    labelNames: ['reason'],
    show: (gauge, { ambiguous, withheld }) => {
      gauge.set({ reason: 'ambiguous' }, ambiguous.count)
      gauge.set({ reason: 'withheld' }, withheld.count)
    },
  },
  {
    name: 'farebox_jobs_in_review',
    help: 'Jobs that a person must look at',
    labelNames: [],
    show: (gauge, { inReview }) => gauge.set(inReview),
  },
]

/**
 * Adds what the ledger tells of the whole system, read at each scrape, so that no restart forgets it. The figures are the same in
 * every worker: take the maximum, not the sum. What cannot be read is left out.
 */
export function addLedgerMetrics(registry: Registry, ledger: Pick<LedgerFiguresStore, 'readLedgerTotals'>): void {
  const register = { registers: [registry] }
  const read = sharedReading(() => ledger.readLedgerTotals())
  const readable: Gauge = new Gauge({
    name: 'farebox_ledger_readable',
    help: 'Whether this process could read the figures of the ledger for this scrape',
    ...register,
    collect: async () => {
      readable.set((await read()) ? 1 : 0)
    },
  })
  for (const { name, help, labelNames, show } of gauges) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: [...labelNames],
      ...register,
      collect: async () => {
        const figures = await read()
        gauge.reset()
        // Without labels a reset one would show a 0 that nobody has read.
        if (labelNames.length === 0) gauge.remove()
        if (figures) show(gauge, figures)
      },
    })
  }
}
