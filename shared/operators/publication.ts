import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { PublicationKind } from './configuration.ts'

/** The content of a configuration file, as a process or a command read it. */
export interface ConfigurationFile {
  readonly kind: PublicationKind
  readonly content: JsonValue
}

/** One published catalog or list of deployments, without its content. */
export interface PublicationSummary {
  readonly number: bigint
  readonly kind: PublicationKind
  readonly publishedAt: Date
  readonly operator: string
  readonly reason: string
  /** Of an imported file: the digest of its content. */
  readonly fileSha256: string | null
}

export interface Publication extends PublicationSummary {
  readonly content: JsonValue
}

/** The shared draft of one kind. */
export interface Draft {
  readonly kind: PublicationKind
  readonly content: JsonValue
  /** The publication that it changes; `null` when nothing had been published. */
  readonly basedOn: bigint | null
  readonly operator: string
  /** Rises with each edit. */
  readonly revision: bigint
  readonly editedAt: Date
}

export interface NewPublication extends ConfigurationFile {
  readonly reason: string
  /** The newest publication that the author has seen; `null` for none. */
  readonly basedOn: bigint | null
  /** The newest publication of the other kind, with which the content was validated. */
  readonly alongside: bigint | null
  /** The draft that is published, which ends with it. */
  readonly draft?: bigint
}

/** Somebody else was first: their draft, or what they published. */
export type PublishOutcome =
  | { readonly outcome: 'published'; readonly number: bigint; readonly revision: bigint }
  | { readonly outcome: 'newer_publication'; readonly newest: PublicationSummary }
  | { readonly outcome: 'newer_draft'; readonly draft: Draft | null }
