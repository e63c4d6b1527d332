import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { MediaClass } from '#shared/media/retention.ts'
import type { CallOptions, ProviderFailure } from '../providers/provider.ts'
import type { Deployment } from '../providers/registry.ts'
import { unserviceable } from '../providers/unserviceable.ts'

/** Bytes that the result will point to, and the class that says how long they are served. */
export interface ProducedMedia {
  readonly bytes: Uint8Array
  readonly contentType: string
  readonly mediaClass: MediaClass
}

/** Where produced media are served until when; known once they are stored. */
export interface PlacedMedia {
  readonly url: string
  readonly expiresAt: Date
}

/** A provider's success, not yet a public result: what was measured, and how the result reads once media have a place. */
export type Product = { readonly usage: JsonValue } & (
  | { readonly media: null; result(placed: null, createdAt: Date): unknown }
  | { readonly media: ProducedMedia; result(placed: PlacedMedia, createdAt: Date): unknown }
)

export type ExecutionOutcome = { readonly outcome: 'produced'; readonly product: Product } | ProviderFailure

/** What the caller sent besides the effective request. */
export interface ExecutionInput {
  readonly job: ClaimedJob
  readonly audio: Uint8Array | null
}

/** How one operation is carried out by any deployment that serves its model. */
export interface Execution {
  /** Texts that safety screening looks at. Images are not screened here. */
  screenedTexts(input: ExecutionInput): readonly string[]
  /**
   * Readies what every deployment needs alike (remote images are fetched once), before any attempt. Throws `AppError` when
   * the request cannot be carried out; it is then failed uncharged with that code.
   */
  prepare(input: ExecutionInput): Promise<PreparedExecution>
}

export interface PreparedExecution {
  /** One upstream call. A deployment without the needed port is `provider_unavailable`. */
  call(deployment: Deployment, options: CallOptions): Promise<ExecutionOutcome>
}

/** The failure of a deployment that cannot serve this kind of request: no such port, or no such voice. */
export function unsupportedBy(deployment: Deployment): ProviderFailure {
  return unserviceable(`${deployment.name} does not serve this kind of request`)
}
