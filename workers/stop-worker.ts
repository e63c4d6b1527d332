import type { JobConsumer } from '#shared/jobs/job-queue.ts'
import type { ProcessReporting } from '#shared/operators/report-process.ts'
import type { MetricsServer } from '#shared/runtime/metrics-server.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import type { WorkerDependencies } from './dependencies.ts'
import type { JobSlots } from './job/job-slots.ts'
import { handBackJobs } from './job/run-job.ts'
import { LONGEST_ROUND_MS } from './sweepers/sweeper.ts'

/** What a worker has started. */
export interface RunningWorker {
  readonly dependencies: Pick<
    WorkerDependencies,
    'memory' | 'router' | 'executionStore' | 'queue' | 'leases' | 'logger' | 'close'
  >
  readonly consumer: Pick<JobConsumer, 'close'>
  readonly slots: Pick<JobSlots, 'drain'>
  readonly sweepers: { stop(): Promise<void> }
  readonly reporting: Pick<ProcessReporting, 'stop'>
  readonly metrics: Pick<MetricsServer, 'close'> | null
}

/** Takes no more jobs, lets those that run end within `drainMs`, hands back the others, and closes everything. */
export async function stopWorker(
  { dependencies, consumer, slots, sweepers, reporting, metrics }: RunningWorker,
  drainMs: number,
): Promise<void> {
  const drainUntil = performance.now() + drainMs
  const leftMs = () => Math.max(0, drainUntil - performance.now())
  const swept = sweepers.stop()
  // Jobs that wait for memory or for a deployment have started nothing: other workers take them.
  dependencies.memory.stopWaiting()
  dependencies.router.stopWaiting()
  await consumer.close(drainMs)
  await slots.drain(leftMs())
  // One may be listing a whole store, for minutes, while the process takes no jobs and its successor waits.
  await withDeadline(Math.min(leftMs(), LONGEST_ROUND_MS), swept, () => undefined)
  await handBackJobs(dependencies)
  // As late as this: a worker that finishes a long call is not down.
  await metrics?.close()
  await reporting.stop()
  await dependencies.close()
}
