import type { Registry } from 'prom-client'
import { privateKeyToAddress } from 'viem/accounts'
import { openProcess } from '#shared/adapters/process/open-process.ts'
import { CHAIN_ID } from '#shared/chain/network/contracts.ts'
import type { JobConsumer, JobQueue, QueueName } from '#shared/jobs/job-queue.ts'
import type { UntilReachable } from '#shared/ledger/check-schema.ts'
import { type BudgetStore, createBudgetStore } from '#shared/ledger/configuration/budget-store.ts'
import { createProcessReportStore, type ProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import { createExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import { createReportsStore, type ReportsStore } from '#shared/ledger/reports/reports-store.ts'
import { createRetentionStore, type RetentionStore } from '#shared/ledger/retention/retention-store.ts'
import { createSettlementStore, type SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import type { ProcessReport } from '#shared/operators/process-report.ts'
import { unchargedBudget } from '#shared/payment/exposure-settings.ts'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { addNodeMetrics } from '#shared/runtime/process-metrics.ts'
import { followConfiguration, type LiveConfiguration, readDeploymentsFile } from './composition/configuration.ts'
import { composeGeneration } from './composition/generation.ts'
import { composePayment, type PaymentParts } from './composition/payment.ts'
import { concurrencyOf, type WorkerConfig } from './config.ts'
import { imageSlots } from './executions/remote-images.ts'
import type { JobDependencies } from './job/dependencies.ts'
import { createJobLeases } from './job/job-leases.ts'
import { createJobMemory, type JobMemory } from './job/job-memory.ts'
import { LONGEST_DEFERRAL_MS } from './job/run-job.ts'
import type { LiveDeployments } from './providers/live-deployments.ts'
import { guardExecutionStore } from './settlement/failure-guard.ts'
import { addMarginLimit, measuredExecutionStore } from './telemetry/job-metrics.ts'
import { measuredSettlementStore } from './telemetry/settlement-metrics.ts'
import { tracedSettlementStore } from './telemetry/traced-ports.ts'

export interface WorkerDependencies extends JobDependencies, PaymentParts {
  readonly settlementStore: SettlementStore
  readonly retentionStore: RetentionStore
  readonly reportsStore: ReportsStore
  readonly budgets: BudgetStore
  readonly metrics: Registry
  readonly memory: JobMemory
  readonly queue: JobQueue
  /** The upstreams that this process calls; none where it only settles. */
  readonly deployments: LiveDeployments
  readonly configuration: LiveConfiguration
  readonly processReports: ProcessReportStore
  /** Identifies the keys of this process. */
  readonly keys: ProcessReport['keys']
  /** Where it sends provider keys; `undefined` where it calls no provider. */
  readonly providerKeys: ProcessReport['providerKeys']
  /** How many jobs of each served queue run concurrently. */
  readonly concurrency: ReadonlyMap<QueueName, number>
  readonly uploads: ObjectStore
  readonly media: ObjectStore
  readonly untilReachable: UntilReachable
  /** Starts taking jobs. */
  consume(run: (jobId: string) => Promise<void>): JobConsumer
  /** Closes every connection that was opened here; close the consumer first. */
  close(): Promise<void>
}

const now = () => new Date()

/** Composes the worker process. A failure closes what was opened. */
export async function createDependencies(config: WorkerConfig): Promise<WorkerDependencies> {
  const deploymentsFile = await readDeploymentsFile(config)
  await using resources = new AsyncDisposableStack()
  const { metrics, tracer, logger, pool, untilReachable, objects, checkObjects, queue } = await openProcess(resources, {
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
  const ffmpegPath = await findFfmpeg({ configuredPath: config.FFMPEG_PATH, searchPath: config.PATH })
  const generation = composeGeneration(config, { textJobs, ffmpegPath, file: deploymentsFile.file, metrics })
  // A process that only settles calls no provider, so it needs none of their keys.
  const { deployments, requireUsable } = callsProviders ? generation : NO_PROVIDERS
  const configuration = await followConfiguration(deploymentsFile, resources, {
    pool,
    untilReachable,
    logger,
    deployments,
    callsProviders,
    requireUsable,
  })
  const payment = await composePayment(config, { settles, settlementStore, logger, tracer, now })
  addNodeMetrics(metrics, () => payment.nodes.readStates())
  resources.defer(payment.nodes.watch(CHAIN_ID))
  const storedExecutions = measuredExecutionStore(metrics, createExecutionStore(pool, unchargedBudget(config)))
  addMarginLimit(metrics, config.MINIMUM_DAILY_MARGIN_USDC)
  const executionStore = guardExecutionStore(storedExecutions, { ...payment, logger })
  const leaseMs = config.LEASE_SECONDS * 1000
  const opened = resources.move()
  return {
    ...generation,
    ...payment,
    deployments,
    configuration,
    pausedQueues: configuration.pausedQueues,
    recallRemoved: (job) => configuration.recallRemoved(job),
    processReports: createProcessReportStore(pool),
    keys: identifyKeys(config),
    providerKeys: callsProviders ? generation.providerKeys : undefined,
    concurrency,
    executionStore,
    retentionStore: createRetentionStore(pool),
    reportsStore: createReportsStore(pool),
    budgets: createBudgetStore(pool),
    queue,
    memory: createJobMemory(config.MAXIMUM_JOB_MEGABYTES * 1024 * 1024),
    uploads: objects,
    media: objects,
    checkObjects,
    untilReachable,
    publicBaseUrl: config.PUBLIC_BASE_URL,
    metrics,
    tracer,
    logger,
    now,
    leaseMs,
    longestDeferralMs: {
      ...LONGEST_DEFERRAL_MS,
      // No signature is given up while it is valid.
      owe: config.AUTHORIZATION_LIFETIME_SECONDS * 1000,
    },
    serves: new Set(concurrency.keys()),
    leases: createJobLeases({ executionStore, leaseMs, logger }),
    consume: (run) => queue.consume(withImageSlots(concurrency), run, configuration.pausedQueues),
    close: () => opened.disposeAsync(),
  }
}

const NO_PROVIDERS = {
  deployments: { apply: () => undefined, recall: () => false, current: () => [], unusable: () => ({}) },
  requireUsable: () => undefined,
}

/** Adds the jobs that only fetch images, so that they take no slot of those that call providers. */
function withImageSlots(concurrency: ReadonlyMap<QueueName, number>): ReadonlyMap<QueueName, number> {
  const textJobs = concurrency.get('text')
  return textJobs === undefined ? concurrency : new Map([...concurrency, ['text', textJobs + imageSlots(textJobs)]])
}

/** Identifies the keys of this process without revealing them. */
function identifyKeys({
  SETTLEMENT_PRIVATE_KEYS: settlementKeys = [],
  SETTLEMENT_CONTRACT: contract,
  RECEIPT_SECRET_ID: receiptSecretId,
}: WorkerConfig): ProcessReport['keys'] {
  return {
    SETTLEMENT_PRIVATE_KEYS: settlementKeys.map((key) => privateKeyToAddress(key).toLowerCase()),
    ...(contract === undefined ? {} : { SETTLEMENT_CONTRACT: [contract] }),
    RECEIPT_SECRET_ID: [receiptSecretId],
  }
}
