import { parseDeployments, servedModels } from '#shared/catalog/deployments-file.ts'
import { type Destination, describeDestination, destinationsOf } from '#shared/catalog/provider-keys.ts'
import { compareWithCost, describeBelowCost } from '#shared/catalog/vendor-cost.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { Author } from './author.ts'
import { catalogsOfContents } from './catalogs-of-configuration.ts'
import { type ConfigurationDifference, compareConfigurations } from './compare-configurations.ts'
import type { PublicationKind } from './configuration.ts'
import type { PastCall } from './price-again.ts'
import type { Draft, NewPublication, Publication, PublishOutcome } from './publication.ts'
import { type ConfigurationContents, problemOf, type WorkerKeys } from './validate-configuration.ts'
import { type WhatIf, whatIf } from './what-if.ts'

/** As many calls as an operator looks at: seconds of traffic on a busy service, days on a quiet one. */
const CALLS = 1000

/** What a review reads and writes of the ledger. */
interface ReviewedStore {
  findNewest(kind: PublicationKind): Promise<Publication | null>
  readWorkerKeys(): Promise<readonly WorkerKeys[]>
  readLastCalls(limit: number): Promise<readonly PastCall[]>
  countWaitingCalls(): Promise<ReadonlyMap<string, number>>
  publish(author: Author, publication: NewPublication): Promise<PublishOutcome>
}

/** What is in force. */
export interface InForce {
  /** `null` before the first one: the built-in catalog without overrides, or no deployments. */
  readonly catalog: Publication | null
  readonly deployments: Publication | null
  /** The running workers, each of which decides where it sends keys. */
  readonly workers: readonly WorkerKeys[]
}

/** Where a key goes under a content; `isNew` when nothing that is in force sends it there. */
export interface ReviewedDestination extends Destination {
  readonly isNew: boolean
}

/** A content as it would be in force. */
export type Review =
  | { readonly outcome: 'invalid'; readonly problem: string }
  | {
      readonly outcome: 'valid'
      readonly difference: ConfigurationDifference
      readonly whatIf: WhatIf
      /** Of deployments: where they send which key. */
      readonly destinations: readonly ReviewedDestination[]
      /** Of deployments: accepted calls of models that none of them serves, which removed ones still have to serve. */
      readonly waiting: readonly { readonly model: string; readonly calls: number }[]
      /** Sentences: which prices would be lower than what a deployment costs, changed or not. */
      readonly belowCost: readonly string[]
    }

export async function readInForce(store: Pick<ReviewedStore, 'findNewest' | 'readWorkerKeys'>): Promise<InForce> {
  const [catalog, deployments, workers] = await Promise.all([
    store.findNewest('catalog'),
    store.findNewest('deployments'),
    store.readWorkerKeys(),
  ])
  return { catalog, deployments, workers }
}

/** Returns the contents in force, with one of them replaced. */
export function contentsOf({ catalog, deployments, workers }: InForce, replaced: Partial<ConfigurationContents> = {}) {
  return {
    catalog: catalog?.content ?? { models: {} },
    deployments: deployments?.content ?? { deployments: [] },
    workers,
    ...replaced,
  }
}

/** Validates a content, and says what it changes and what it would have changed about the last calls. */
export async function reviewContent(
  store: Pick<ReviewedStore, 'readLastCalls' | 'countWaitingCalls'>,
  inForce: InForce,
  kind: PublicationKind,
  content: JsonValue,
): Promise<Review> {
  const after = contentsOf(inForce, { [kind]: content })
  const problem = problemOf(kind, after)
  if (problem !== null) return { outcome: 'invalid', problem }
  const { published, offered } = catalogsOfContents(after)
  return {
    outcome: 'valid',
    difference: compareConfigurations(kind, contentsOf(inForce), after),
    whatIf: whatIf(await store.readLastCalls(CALLS), {
      inForce: catalogsOfContents(contentsOf(inForce)).offered,
      draft: offered,
    }),
    destinations: kind === 'deployments' ? reviewDestinations(inForce, content) : [],
    waiting: kind === 'deployments' ? await readWaiting(store, content) : [],
    belowCost: compareWithCost(published, parseDeployments(after.deployments)).belowCost.map(describeBelowCost),
  }
}

/** Returns where valid deployments send keys, what is new first. */
function reviewDestinations(inForce: InForce, content: JsonValue): readonly ReviewedDestination[] {
  const known = new Set(
    destinationsOf(parseDeployments(contentsOf(inForce).deployments)).map((one) => describeDestination(one)),
  )
  const reviewed = destinationsOf(parseDeployments(content)).map((one) => ({
    ...one,
    isNew: !known.has(describeDestination(one)),
  }))
  return [...reviewed.filter(({ isNew }) => isNew), ...reviewed.filter(({ isNew }) => !isNew)]
}

/** Returns the destinations of a content that nothing in force has: publishing them is confirmed by itself. */
export function newDestinations(
  inForce: InForce,
  kind: PublicationKind,
  content: JsonValue,
): readonly ReviewedDestination[] {
  return kind === 'deployments' ? reviewDestinations(inForce, content).filter(({ isNew }) => isNew) : []
}

async function readWaiting(store: Pick<ReviewedStore, 'countWaitingCalls'>, content: JsonValue) {
  const served = servedModels(parseDeployments(content))
  return [...(await store.countWaitingCalls())]
    .filter(([model]) => !served.has(model))
    .map(([model, calls]) => ({ model, calls }))
}

/** Says where keys would go, as a line of the review: `key GEMINI_API_KEY goes to https://… (new)`. */
export function lineOfDestination({ isNew, ...destination }: ReviewedDestination): string {
  return `${describeDestination(destination)}${isNew ? ' (new)' : ''}`
}

export interface ReviewedPublication {
  readonly kind: PublicationKind
  readonly content: JsonValue
  readonly reason: string
  /** What was in force when the content was reviewed. */
  readonly inForce: InForce
  readonly draft?: Draft
  /** Whether the author has confirmed the destinations of keys that are new. */
  readonly confirmsDestinations?: boolean
}

/** Publishes a content, unless it is not valid or somebody else published or edited in the meantime. */
export async function publishContent(
  store: Pick<ReviewedStore, 'publish'>,
  author: Author,
  { kind, content, reason, inForce, draft, confirmsDestinations = false }: ReviewedPublication,
): Promise<
  | PublishOutcome
  | { readonly outcome: 'invalid'; readonly problem: string }
  | { readonly outcome: 'unconfirmed'; readonly destinations: readonly ReviewedDestination[] }
> {
  const problem = problemOf(kind, contentsOf(inForce, { [kind]: content }))
  if (problem !== null) return { outcome: 'invalid', problem }
  const destinations = newDestinations(inForce, kind, content)
  if (destinations.length > 0 && !confirmsDestinations) return { outcome: 'unconfirmed', destinations }
  const other = kind === 'catalog' ? inForce.deployments : inForce.catalog
  return await store.publish(author, {
    kind,
    content,
    reason,
    basedOn: inForce[kind]?.number ?? null,
    alongside: other?.number ?? null,
    ...(draft === undefined ? {} : { draft: draft.revision }),
  })
}

/** Says why nothing was published, as a sentence. */
export function whyNotPublished(
  outcome: Exclude<Awaited<ReturnType<typeof publishContent>>, { outcome: 'published' }>,
): string {
  switch (outcome.outcome) {
    case 'invalid':
      return outcome.problem
    case 'unconfirmed':
      return `Nothing was published: ${outcome.destinations.map(lineOfDestination).join(', ')}.`
    case 'newer_publication': {
      const { kind, number, operator, publishedAt } = outcome.newest
      return `${operator} published ${kind} ${number} at ${publishedAt.toISOString()}, after you looked. Review your change again.`
    }
    case 'newer_draft':
      return outcome.draft === null
        ? 'The draft was published or discarded in the meantime.'
        : `${outcome.draft.operator} edited the draft at ${outcome.draft.editedAt.toISOString()}, after you looked. Review it again.`
  }
}
