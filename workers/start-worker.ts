import { startReporting } from '#shared/operators/report-process.ts'
import { serveMetrics } from '#shared/runtime/metrics-server.ts'
import { stopOnSignal } from '#shared/runtime/shutdown.ts'
import type { WorkerConfig } from './config.ts'
import type { WorkerDependencies } from './dependencies.ts'
import { createJobSlots } from './job/job-slots.ts'
import { runJob } from './job/run-job.ts'
import { replaceStuckTransactions } from './settlement/own-keys/replace-stuck-transactions.ts'
import { requireExclusiveKeys } from './settlement/own-keys/require-exclusive-keys.ts'
import { watchFinality } from './settlement/own-keys/watch-finality.ts'
import { watchGas } from './settlement/own-keys/watch-gas.ts'
import { watchRemoteFinality } from './settlement/remote-facilitator/watch-remote-finality.ts'
import { stopWorker } from './stop-worker.ts'
import { endLostCalls, enqueueAccepted, reconcileSettlements } from './sweepers/due-jobs.ts'
import { enforceBudgets } from './sweepers/enforce-budgets.ts'
import { retentionSweeps } from './sweepers/retention.ts'
import { rollUpHours, rollUpTotals } from './sweepers/roll-up-totals.ts'
import { type Sweep, startSweepers, sweepIntervalMs } from './sweepers/sweeper.ts'
import { addDeploymentMetrics, addRetirementMetric } from './telemetry/deployment-metrics.ts'
import { describeWorker } from './telemetry/describe-worker.ts'
import { addMemoryMetrics } from './telemetry/job-metrics.ts'
import { addKeyMetrics } from './telemetry/key-metrics.ts'
import { addLedgerMetrics } from './telemetry/ledger-metrics.ts'
import { addBatchMetrics, addSettlementMetrics } from './telemetry/settlement-metrics.ts'
import { addSnapshotMetrics } from './telemetry/snapshot-metrics.ts'

/** Time to hand back unfinished jobs after DRAIN_SECONDS and to close connections. */
const HAND_BACK_MS = 5000

/** Takes jobs and sweeps until a signal ends the process. */
export async function startWorker(config: WorkerConfig, dependencies: WorkerDependencies): Promise<void> {
  const { logger, metrics: registry, reportsStore } = dependencies
  const drainMs = config.DRAIN_SECONDS * 1000
  // Checks nothing where other processes settle.
  await requireExclusiveKeys(dependencies)
  const slots = createJobSlots(logger)
  const consumer = dependencies.consume((jobId) => slots.run((releaseSlot) => runJob(dependencies, jobId, releaseSlot)))
  addDeploymentMetrics(registry, dependencies.router)
  dependencies.configuration.onChange(() => consumer.pause(dependencies.configuration.pausedQueues))
  const reporting = startReporting({
    ...dependencies,
    kind: 'worker',
    store: dependencies.processReports,
    describe: () => describeWorker(dependencies, consumer),
  })
  addRetirementMetric(registry, () => dependencies.deployments.current())
  addMemoryMetrics(registry, dependencies.memory)
  addLedgerMetrics(registry, reportsStore)
  addSnapshotMetrics(registry, reportsStore)
  addKeyMetrics(registry, dependencies)
  const settles = dependencies.serves.has('settlement')
  const sweepers = startSweepers(
    [
      enqueueAccepted(dependencies),
      endLostCalls({ ...dependencies, run: (jobId) => runJob(dependencies, jobId) }),
      reconcileSettlements(dependencies),
      ...(settles ? settlementSweeps(dependencies) : []),
      ...retentionSweeps(dependencies, config.RESULT_RETENTION_HOURS * 3600 * 1000),
      enforceBudgets(dependencies),
      rollUpTotals(reportsStore),
      rollUpHours(reportsStore),
    ],
    sweepIntervalMs(dependencies.leaseMs),
    logger,
  )
  const { METRICS_HOST: metricsHost, METRICS_PORT: metricsPort } = config
  const metrics = metricsPort === undefined ? null : await serveMetrics(registry, metricsHost, metricsPort)
  const running = { dependencies, consumer, slots, sweepers, reporting, metrics }
  stopOnSignal(() => stopWorker(running, drainMs), drainMs + HAND_BACK_MS)
  logger.info('taking jobs')
}

/**
 * Returns the sweeps that watch settlements beyond their jobs, and adds their metrics; only for processes that settle.
 */
function settlementSweeps(dependencies: WorkerDependencies): readonly Sweep[] {
  const { remote, batches, metrics: registry } = dependencies
  const reports = addSettlementMetrics(registry, dependencies)
  if (batches) addBatchMetrics(registry, batches)
  return [
    replaceStuckTransactions({ ...dependencies, ...reports }),
    watchFinality(dependencies),
    ...(remote ? [watchRemoteFinality({ ...dependencies, ...remote })] : []),
    watchGas(dependencies),
  ]
}
