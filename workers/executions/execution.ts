import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { LeasedJob } from '#shared/jobs/job.ts'
import type { MediaClass } from '#shared/media/retention.ts'
import type { Deployment } from '../providers/deployment.ts'
import { unserviceable } from '../providers/failures.ts'
import type { CallOptions, ProviderFailure } from '../providers/provider.ts'

/** Bytes that the result will link to, and the class that determines how long they are served. */
interface ProducedMedia {
  readonly bytes: Uint8Array
  readonly contentType: string
  readonly mediaClass: MediaClass
}

/** The URL and expiry of stored media. */
interface StoredMedia {
  readonly url: string
  readonly expiresAt: Date
}

/**
 * A provider's success, not yet a public result: the measured usage, and the result as a function of the stored media.
 */
export type Product = {
  readonly usage: JsonValue
  /** Names of the fields of the vendor's answer that were not as documented. */
  readonly mended?: readonly string[] | undefined
} & (
  | { readonly media: null; result(stored: null, createdAt: Date): unknown }
  | { readonly media: ProducedMedia; result(stored: StoredMedia, createdAt: Date): unknown }
)

export type ExecutionOutcome = { readonly outcome: 'produced'; readonly product: Product } | ProviderFailure

/** The job, and the audio that its caller uploaded. */
export interface ExecutionInput {
  readonly job: LeasedJob
  readonly audio: Uint8Array | null
}

/** The memory that the job has reserved. */
export interface ExtendableMemory {
  /** Extends it to at least `bytes`; returns false when there is no room. Never waits. */
  readonly extendTo: (bytes: number) => boolean
  /** Returns what exceeds `bytes` to other jobs. */
  readonly shrinkTo: (bytes: number) => void
}

/** The way one operation is carried out by any deployment that serves its model. */
export interface Execution {
  /** Returns the most bytes that the job will hold, which are reserved before its request and its audio are read. */
  heldBytes(job: LeasedJob): number
  /** Returns the texts for safety screening. Images are not screened. */
  screenedTexts(input: ExecutionInput): readonly string[]
  /**
   * Prepares the input that all deployments share (remote images are fetched once), before any attempt. Throws
   * `AppError` when the request cannot be carried out; the job then fails uncharged with that code. Throws
   * `WorkDeferred` when the job must be prepared later, and `MemoryShort` when it must first reserve more memory.
   */
  prepare(input: ExecutionInput, memory: ExtendableMemory): Promise<PreparedExecution>
}

export interface PreparedExecution {
  /** Digest of what the request begins with, where vendors cache it; see `RoutedJob`. */
  readonly prefix?: string | undefined
  /** Makes one upstream call. A deployment without the needed port is `unserviceable`. */
  call(deployment: Deployment, options: CallOptions): Promise<ExecutionOutcome>
}

/** Adds what was measured before the call to the failure of one that the vendor worked on, and bills. */
export function withUsage(failure: ProviderFailure, usage: JsonValue): ProviderFailure {
  return failure.certainty === 'empty' ? { ...failure, usage } : failure
}

/** Returns the failure of a deployment that does not support this kind of request: no such port, or no such voice. */
export function unsupportedBy(deployment: Deployment): ProviderFailure {
  return unserviceable(`${deployment.name} does not support this kind of request`)
}

/** Thrown while work is prepared, when it needs more memory than could be added to what its job has reserved. */
export class MemoryShort extends Error {
  override readonly name = 'MemoryShort'
  /** The most that the job can need. */
  readonly neededBytes: number

  constructor(neededBytes: number) {
    super(`the job needs up to ${neededBytes} bytes of memory`)
    this.neededBytes = neededBytes
  }
}

/** Takes what ends the wait of a deferred job; `wake` returns whether the job was still waiting. */
export type WhenReady = (wake: () => Promise<boolean>) => void

/** Thrown while work is prepared, when the request is valid but must wait. */
export class WorkDeferred extends Error {
  override readonly name = 'WorkDeferred'
  readonly delayMs: number
  readonly whenReady: WhenReady

  constructor(reason: string, delayMs: number, whenReady: WhenReady) {
    super(reason)
    this.delayMs = delayMs
    this.whenReady = whenReady
  }
}
