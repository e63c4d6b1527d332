import type { JobConsumer, QueueName } from '#shared/jobs/job-queue.ts'
import type { ProcessReport } from '#shared/operators/process-report.ts'
import { PROGRAM_VERSION } from '#shared/runtime/program-version.ts'
import type { LiveDeployments } from '../providers/live-deployments.ts'
import type { Router } from '../providers/route.ts'

export interface DescribedWorker {
  readonly configuration: { appliedRevision(): bigint | null; readonly pausedQueues: ReadonlySet<QueueName> }
  readonly deployments: Pick<LiveDeployments, 'unusable'>
  readonly router: Pick<Router, 'states'>
  readonly concurrency: ReadonlyMap<QueueName, number>
  readonly keys: ProcessReport['keys']
  readonly providerKeys: ProcessReport['providerKeys']
}

/** Describes what a worker is doing, for the operators. */
export function describeWorker(
  { configuration, deployments, router, concurrency, keys, providerKeys }: DescribedWorker,
  consumer: Pick<JobConsumer, 'activeJobs'>,
): ProcessReport {
  const active = consumer.activeJobs()
  return {
    version: PROGRAM_VERSION,
    configurationRevision: configuration.appliedRevision()?.toString() ?? null,
    keys,
    ...(providerKeys === undefined ? {} : { providerKeys }),
    queues: Object.fromEntries(
      [...concurrency].map(([name, limit]) => [
        name,
        { active: active.get(name) ?? 0, limit, isPaused: configuration.pausedQueues.has(name) },
      ]),
    ),
    deployments: Object.fromEntries(
      router
        .states()
        .map(({ name, circuit, activeCalls, isDrained, weight }) => [
          name,
          { circuit, activeCalls, isDrained, weight },
        ]),
    ),
    unusable: deployments.unusable(),
  }
}
