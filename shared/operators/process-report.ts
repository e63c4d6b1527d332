import type { ProviderKeys } from '#shared/catalog/provider-keys.ts'
import type { QueueName } from '#shared/jobs/job-queue.ts'

/** What a running process says of itself every two seconds. Never contains a key, only what identifies one. */
export interface ProcessReport {
  /** The version of the program. */
  readonly version: string
  /** The revision of the configuration that this process applies; `null` before it has read one. */
  readonly configurationRevision: string | null
  /** Of an API: the version of the catalog that it quotes with. */
  readonly catalogVersion?: string
  /** What identifies the keys that this process was started with, by the name of their setting, newest first. */
  readonly keys: Readonly<Record<string, readonly string[]>>
  /** Of a worker: its queues with the jobs that it runs and may run at once. */
  readonly queues?: Readonly<
    Partial<Record<QueueName, { readonly active: number; readonly limit: number; readonly isPaused: boolean }>>
  >
  /** Of a worker that calls providers: its deployments by name. */
  readonly deployments?: Readonly<Record<string, DeploymentReport>>
  /** Of the same: the origins that it sends each provider key to, by the name of the key's variable. */
  readonly providerKeys?: ProviderKeys
  /** Published deployments that this worker cannot use, with the reason, such as a key that it was started without. */
  readonly unusable?: Readonly<Record<string, string>>
}

export interface DeploymentReport {
  readonly circuit: 'closed' | 'open' | 'half_open'
  readonly activeCalls: number
  readonly isDrained: boolean
  readonly weight: number
}

export interface SeenProcess {
  readonly instance: string
  readonly kind: 'api' | 'worker' | 'operator'
  readonly startedAt: Date
  readonly seenAt: Date
  /** Whether it still reports. Another one has missed five reports: it is gone, or cannot reach the database. */
  readonly isRunning: boolean
  readonly report: ProcessReport
}

/** What identifies a running process to the others. */
export type ProcessIdentity = Pick<SeenProcess, 'instance' | 'kind' | 'startedAt'>
