import type { JobState } from '#shared/jobs/job.ts'
import type { QueueName, QueueTotals } from '#shared/jobs/job-queue.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'

/** The windows in which the calls of deployments are looked at, in seconds. */
export const HEALTH_WINDOWS = { '15m': 900, '1h': 3600, '6h': 21_600, '24h': 86_400 } as const

export type HealthWindow = keyof typeof HEALTH_WINDOWS

/** What the calls to a deployment within a window came to. Of very many calls only the latest count. */
export interface DeploymentHealth {
  readonly name: string
  readonly calls: number
  readonly open: number
  readonly succeeded: number
  readonly failedDefinite: number
  readonly failedEmpty: number
  readonly failedAmbiguous: number
  /** Durations of successful calls; `null` without one. */
  readonly medianMs: number | null
  readonly p95Ms: number | null
  readonly lastFailedAt: Date | null
  /** Whether there were more calls than were looked at. */
  readonly isCut: boolean
  /** Work that nobody was charged for, at most, within the window. */
  readonly absorbed: AtomicAmount
}

/** Failures of one class: of the same certainty, for the same reason. */
export interface FailureClass {
  readonly state: 'failed_definite' | 'failed_empty' | 'failed_ambiguous'
  readonly reason: string
  readonly count: number
  readonly lastAt: Date
  /** The job of the latest one. */
  readonly lastJobId: string
}

/** A part of a window. */
export interface HealthInterval {
  readonly startedAt: Date
  readonly succeeded: number
  readonly failed: number
  readonly medianMs: number | null
  readonly p95Ms: number | null
}

/** An unfinished job that has waited longer than others of its queue. */
export interface WaitingJob {
  readonly id: string
  readonly operation: string
  readonly state: JobState
  readonly publicModel: string
  readonly acceptedAt: Date
  readonly dueAt: Date
  /** Since when it has been deferred in its state; `null` when it has not. */
  readonly deferredSince: Date | null
  readonly isRunning: boolean
}

/** What the console shows about providers and queues. */
export interface MachineryStore {
  readQueueTotals(): Promise<ReadonlyMap<QueueName, QueueTotals>>
  /** Returns the unfinished jobs of a queue that are due longest, at most `limit`. */
  readOldestJobs(queue: QueueName, limit: number): Promise<readonly WaitingJob[]>
  readDeploymentHealth(names: readonly string[], window: HealthWindow): Promise<ReadonlyMap<string, DeploymentHealth>>
  /** Returns the failures of a deployment by class, most frequent first. */
  readFailures(name: string, window: HealthWindow): Promise<readonly FailureClass[]>
  /** Returns the calls of a deployment in equal parts of the window, oldest first. */
  readIntervals(name: string, window: HealthWindow): Promise<readonly HealthInterval[]>
  /** Returns whether a call to a deployment of this name was ever recorded. */
  wasCalled(name: string): Promise<boolean>
}
