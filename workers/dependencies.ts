import type { Registry } from 'prom-client'
import { createExecutionStore } from '#shared/adapters/postgres/execution/execution-store.ts'
import { createReportsStore } from '#shared/adapters/postgres/reports/reports-store.ts'
import { createRetentionStore } from '#shared/adapters/postgres/retention/retention-store.ts'
import { createSettlementStore } from '#shared/adapters/postgres/settlement/settlement-store.ts'
import { openProcess } from '#shared/adapters/process/open-process.ts'
import type { JobConsumer, JobQueue, QueueName } from '#shared/jobs/job-queue.ts'
import type { ReportsStore } from '#shared/jobs/reports-store.ts'
import type { RetentionStore } from '#shared/jobs/retention-store.ts'
import type { SettlementStore } from '#shared/jobs/settlement-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { unchargedBudget } from '#shared/payment/exposure-settings.ts'
import { composeGeneration } from './composition/generation.ts'
import { composePayment, type PaymentParts } from './composition/payment.ts'
import type { WorkerConfig } from './config.ts'
import { imagePlaces } from './executions/remote-images.ts'
import type { RunJobDependencies } from './job/run-job.ts'
import { concurrencyOf } from './queue-settings.ts'
import { measuredSettlementStore } from './telemetry/settlement-metrics.ts'
import { tracedSettlementStore } from './telemetry/traced-ports.ts'

export interface WorkerDependencies extends RunJobDependencies, PaymentParts {
  readonly settlementStore: SettlementStore
  readonly retentionStore: RetentionStore
  readonly reportsStore: ReportsStore
  readonly metrics: Registry
  readonly queue: JobQueue
  readonly uploads: ObjectStore
  readonly media: ObjectStore
  /** Starts taking jobs. */
  consume(run: (jobId: string) => Promise<void>): JobConsumer
  /** Closes every connection that was opened here; close the consumer first. */
  close(): Promise<void>
}

const now = () => new Date()

/** Composes the worker process. A failure closes what was opened. */
export async function createDependencies(config: WorkerConfig): Promise<WorkerDependencies> {
  await using resources = new AsyncDisposableStack()
  const { metrics, tracer, logger, pool, objects, queue } = await openProcess(resources, {
    name: 'worker',
    settings: config,
    // Without a database there is nothing to do.
    waitsForLedger: true,
    now,
  })
  const concurrency = concurrencyOf(config)
  const settles = concurrency.has('settlement')
  const storedSettlements = createSettlementStore(pool)
  const settlementStore = tracedSettlementStore(
    tracer,
    settles ? measuredSettlementStore(metrics, storedSettlements) : storedSettlements,
  )
  const callsProviders = [...concurrency.keys()].some((name) => name !== 'settlement')
  const textJobs = concurrency.get('text') ?? 0
  const generation = await composeGeneration(config, { callsProviders, textJobs, metrics, now })
  const payment = composePayment(config, { settles, settlementStore, logger, tracer, now })
  const opened = resources.move()
  return {
    ...generation,
    ...payment,
    executionStore: createExecutionStore(pool, unchargedBudget(config)),
    settlementStore,
    retentionStore: createRetentionStore(pool),
    reportsStore: createReportsStore(pool, unchargedBudget(config)),
    queue,
    uploads: objects,
    media: objects,
    publicBaseUrl: config.PUBLIC_BASE_URL,
    metrics,
    tracer,
    logger,
    now,
    leaseMs: config.LEASE_SECONDS * 1000,
    longestDeferralMs: {
      fail: config.MAXIMUM_START_DEFERRAL_SECONDS * 1000,
      owe: config.MAXIMUM_CHARGE_DEFERRAL_SECONDS * 1000,
      withhold: config.MAXIMUM_SETTLEMENT_SECONDS * 1000,
      review: config.MAXIMUM_SETTLEMENT_SECONDS * 1000,
    },
    serves: new Set(concurrency.keys()),
    claimedJobs: new Set(),
    consume: (run) => queue.consume(withImagePlaces(concurrency), run),
    close: () => opened.disposeAsync(),
  }
}

/** Adds the jobs that only fetch images, so that they take no place of those that call providers. */
function withImagePlaces(concurrency: ReadonlyMap<QueueName, number>): ReadonlyMap<QueueName, number> {
  const textJobs = concurrency.get('text')
  return textJobs === undefined ? concurrency : new Map([...concurrency, ['text', textJobs + imagePlaces(textJobs)]])
}
