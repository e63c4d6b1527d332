import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { Author } from './author.ts'
import type { PublicationKind } from './configuration.ts'
import type { List, ListPage } from './money-store.ts'
import type { PastCall } from './price-again.ts'
import type { WorkerKeys } from './validate-configuration.ts'

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

export interface DraftEdit extends ConfigurationFile {
  /** The revision of the draft that was edited; `null` to begin one. */
  readonly edited: bigint | null
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

export interface ImportedFile extends ConfigurationFile {
  readonly reason: string
}

/** Somebody else was first: their draft, or what they published. */
export type PublishOutcome =
  | { readonly outcome: 'published'; readonly number: bigint; readonly revision: bigint }
  | { readonly outcome: 'newer_publication'; readonly newest: PublicationSummary }
  | { readonly outcome: 'newer_draft'; readonly draft: Draft | null }

export type DraftOutcome =
  | { readonly outcome: 'saved'; readonly draft: Draft }
  | { readonly outcome: 'newer_draft'; readonly draft: Draft | null }

export type ImportOutcome =
  | { readonly outcome: 'published'; readonly number: bigint; readonly revision: bigint }
  /** The newest publication of the kind has this content. */
  | { readonly outcome: 'unchanged'; readonly number: bigint }

/** Publications of catalogs and deployments, and their drafts. */
export interface ConfigurationStore {
  /** Returns the publication in force; `null` before the first one. */
  findNewest(kind: PublicationKind): Promise<Publication | null>
  findPublication(number: bigint): Promise<Publication | null>
  /** Returns publications of a kind, newest first. */
  listPublications(kind: PublicationKind, page: ListPage): Promise<List<PublicationSummary>>
  findDraft(kind: PublicationKind): Promise<Draft | null>
  /** Saves the draft, unless somebody else has edited it since. */
  saveDraft(author: Author, edit: DraftEdit): Promise<DraftOutcome>
  /** Deletes the draft. Returns whether it existed with this revision. */
  discardDraft(author: Author, kind: PublicationKind, revision: bigint): Promise<boolean>
  /** Publishes a content that was validated, unless the author has not seen the newest publication or draft. */
  publish(author: Author, publication: NewPublication): Promise<PublishOutcome>
  /** Returns the last calls, newest first, to price them under a draft. */
  readLastCalls(limit: number): Promise<readonly PastCall[]>
  /** Returns where the running workers that call providers send keys. */
  readWorkerKeys(): Promise<readonly WorkerKeys[]>
  /** Counts the accepted calls that no provider has been called for yet, by public model. */
  countWaitingCalls(): Promise<ReadonlyMap<string, number>>
  /** Publishes the content of a file, whatever was published before. */
  importFile(author: Author, file: ImportedFile): Promise<ImportOutcome>
}
