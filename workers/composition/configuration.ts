import { readFile } from 'node:fs/promises'
import type { DeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { canonicalJson, type JsonValue } from '#shared/digests/canonical-json.ts'
import type { QueueName } from '#shared/jobs/job-queue.ts'
import type { Job } from '#shared/jobs/job.ts'
import type { UntilReachable } from '#shared/ledger/check-schema.ts'
import { createConfigurationReader } from '#shared/ledger/configuration/configuration-reader.ts'
import { importFirstFiles } from '#shared/ledger/configuration/import-files.ts'
import type { Pool } from '#shared/ledger/pool.ts'
import type { Configuration, Switches } from '#shared/operators/configuration.ts'
import { controlledDeployments } from '#shared/operators/controlled-deployments.ts'
import { readDeploymentsContent } from '#shared/operators/validate-configuration.ts'
import { watchConfiguration } from '#shared/operators/watch-configuration.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { namingSetting } from '#shared/runtime/start-process.ts'
import type { WorkerConfig } from '../config.ts'
import type { LiveDeployments } from '../providers/live-deployments.ts'

/** The deployments file that this process was started with. */
export interface StartDeployments {
  readonly content: JsonValue
  readonly file: DeploymentsFile
}

/** Reads the deployments file. Throws a `StartFailure`. */
export function readDeploymentsFile({
  DEPLOYMENTS_FILE: path,
}: Pick<WorkerConfig, 'DEPLOYMENTS_FILE'>): Promise<StartDeployments> {
  return namingSetting('DEPLOYMENTS_FILE', async () => readDeploymentsContent(await readFile(path, 'utf8')))
}

/** What operators have published and switched, as this process applies it. */
export interface LiveConfiguration {
  readonly pausedQueues: ReadonlySet<QueueName>
  appliedRevision(): bigint | null
  /**
   * Lets the deployments take a job's call that were published when it was accepted, and removed since. Returns whether
   * there are any.
   */
  recallRemoved(job: Pick<Job, 'publicModel' | 'acceptedAt'>): Promise<boolean>
  /** Calls back after each change. */
  onChange(listener: () => void): void
}

/**
 * How long after its quote a job may be accepted: a deployment that served the quoted model may be gone by then. Longer
 * than challenges live (`CHALLENGE_LIFETIME_SECONDS`, 10 minutes).
 */
const LONGEST_QUOTE_MS = 3_600_000

interface FollowingDependencies {
  readonly pool: Pool
  readonly untilReachable: UntilReachable
  readonly logger: Logger
  readonly deployments: LiveDeployments
  /** Without providers the file of this process may be empty: it is not imported, and not waited for. */
  readonly callsProviders: boolean
  /** Throws when the deployments of this process's file cannot be used. */
  readonly requireUsable: (file: DeploymentsFile) => void
}

/**
 * Applies the configuration and follows its changes. Where providers are called, resolves after the first reading that
 * succeeds: without deployments, the jobs that are waiting would fail.
 *
 * Deployments that cannot be used are refused with a `StartFailure` as long as this process's file is in force. Those
 * that operators published later are left out and logged, so that a publication does not prevent a restart.
 */
export async function followConfiguration(
  { content, file }: StartDeployments,
  resources: AsyncDisposableStack,
  { pool, untilReachable, logger, deployments, callsProviders, requireUsable }: FollowingDependencies,
): Promise<LiveConfiguration> {
  const reader = createConfigurationReader(pool)
  const inForce = (await untilReachable(() => reader.readConfiguration()))?.deployments.file
  if (inForce === undefined || isSame(inForce, file)) await namingSetting('DEPLOYMENTS_FILE', () => requireUsable(file))
  const pausedQueues = new Set<QueueName>()
  const listeners: (() => void)[] = []
  const { promise: firstApplied, resolve } = Promise.withResolvers<void>()
  const apply = (configuration: Configuration) => {
    deployments.apply(controlledDeployments(configuration))
    for (const [deployment, reason] of Object.entries(deployments.unusable()))
      logger.error('a published deployment cannot be used by this process', { deployment, reason })
    for (const listener of listeners) listener()
    resolve()
  }
  const applySwitches = ({ pausedQueues: paused }: Switches) => {
    if (paused.size === pausedQueues.size && [...paused].every((queue) => pausedQueues.has(queue))) return
    pausedQueues.clear()
    for (const queue of paused) pausedQueues.add(queue)
    for (const listener of listeners) listener()
  }
  const prepare = async () => {
    const differing = await importFirstFiles(pool, [{ kind: 'deployments', content }])
    if (differing.length > 0)
      logger.warn(
        'DEPLOYMENTS_FILE is not the file that was imported last, and is not in force; to publish it run npm run deployments -- import FILE',
      )
  }
  const watch = watchConfiguration({ reader, ...(callsProviders ? { prepare } : {}), applySwitches, apply, logger })
  resources.defer(() => watch.close())
  await (callsProviders ? firstApplied : watch.firstPoll)
  return {
    pausedQueues,
    appliedRevision: () => watch.appliedRevision(),
    recallRemoved: async ({ publicModel, acceptedAt }) => {
      const since = new Date(acceptedAt.getTime() - LONGEST_QUOTE_MS)
      return deployments.recall(publicModel, await reader.readRemovedDeployments(publicModel, since))
    },
    onChange: (listener) => void listeners.push(listener),
  }
}

function isSame(one: DeploymentsFile, other: DeploymentsFile): boolean {
  return canonicalJson(one) === canonicalJson(other)
}
