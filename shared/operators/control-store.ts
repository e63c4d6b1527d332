import type { QueueName } from '#shared/jobs/job-queue.ts'
import type { Author } from './author.ts'
import type { DeploymentControl } from './configuration.ts'

/** Who made a change that acts at once, when and why. */
export interface ControlRecord {
  readonly operator: string
  readonly reason: string | null
  readonly changedAt: Date
}

export interface ControlledQueue extends ControlRecord {
  readonly isPaused: boolean
}

/** What is to change about one deployment; the rest stays. */
export type DeploymentChange = Partial<DeploymentControl> & {
  readonly deployment: string
  readonly reason: string
}

export interface QueueChange {
  readonly queue: QueueName
  readonly isPaused: boolean
  readonly reason: string
}

export type DeploymentChangeOutcome =
  | {
      readonly outcome: 'changed' | 'unchanged'
      readonly revision: bigint
      /** Models that are not offered, because only drained deployments serve them. */
      readonly drainedModels: readonly string[]
    }
  | { readonly outcome: 'unknown_deployment'; readonly known: readonly string[] }

export interface QueueChangeOutcome {
  readonly outcome: 'changed' | 'unchanged'
  readonly revision: bigint
}

/** What operators switch without a publication. Every change is recorded, and acts on all processes within 2 s. */
export interface ControlStore {
  /** Returns the deployments that were ever switched, by name. */
  readDeploymentControls(): Promise<ReadonlyMap<string, DeploymentControl & ControlRecord>>
  /** Returns the queues that were ever paused, by name. */
  readQueueControls(): Promise<ReadonlyMap<QueueName, ControlledQueue>>
  controlDeployment(author: Author, change: DeploymentChange): Promise<DeploymentChangeOutcome>
  controlQueue(author: Author, change: QueueChange): Promise<QueueChangeOutcome>
}
