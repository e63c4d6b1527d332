import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { Author } from './author.ts'
import { catalogsOfContents } from './catalogs-of-configuration.ts'
import { type ConfigurationDifference, compareConfigurations } from './compare-configurations.ts'
import type { PublicationKind } from './configuration.ts'
import type { ConfigurationStore, Draft, Publication, PublishOutcome } from './configuration-store.ts'
import { type ConfigurationContents, problemOf } from './validate-configuration.ts'
import { type WhatIf, whatIf } from './what-if.ts'

/** As many calls as an operator looks at: seconds of traffic on a busy service, days on a quiet one. */
const CALLS = 1000

/** What is in force. */
export interface InForce {
  /** `null` before the first one: the built-in catalog without overrides, or no deployments. */
  readonly catalog: Publication | null
  readonly deployments: Publication | null
}

/** A content as it would be in force. */
export type Review =
  | { readonly outcome: 'invalid'; readonly problem: string }
  | { readonly outcome: 'valid'; readonly difference: ConfigurationDifference; readonly whatIf: WhatIf }

export async function readInForce(store: ConfigurationStore): Promise<InForce> {
  const [catalog, deployments] = await Promise.all([store.findNewest('catalog'), store.findNewest('deployments')])
  return { catalog, deployments }
}

/** Returns the contents in force, with one of them replaced. */
export function contentsOf({ catalog, deployments }: InForce, replaced: Partial<ConfigurationContents> = {}) {
  return {
    catalog: catalog?.content ?? { models: {} },
    deployments: deployments?.content ?? { deployments: [] },
    ...replaced,
  }
}

/** Validates a content, and says what it changes and what it would have changed about the last calls. */
export async function reviewContent(
  store: ConfigurationStore,
  inForce: InForce,
  kind: PublicationKind,
  content: JsonValue,
): Promise<Review> {
  const after = contentsOf(inForce, { [kind]: content })
  const problem = problemOf(kind, after)
  if (problem !== null) return { outcome: 'invalid', problem }
  return {
    outcome: 'valid',
    difference: compareConfigurations(kind, contentsOf(inForce), after),
    whatIf: whatIf(await store.readLastCalls(CALLS), catalogsOfContents(after).offered),
  }
}

export interface ReviewedPublication {
  readonly kind: PublicationKind
  readonly content: JsonValue
  readonly reason: string
  /** What was in force when the content was reviewed. */
  readonly inForce: InForce
  readonly draft?: Draft
}

/** Publishes a content, unless it is not valid or somebody else published or edited in the meantime. */
export async function publishContent(
  store: ConfigurationStore,
  author: Author,
  { kind, content, reason, inForce, draft }: ReviewedPublication,
): Promise<PublishOutcome | { readonly outcome: 'invalid'; readonly problem: string }> {
  const problem = problemOf(kind, contentsOf(inForce, { [kind]: content }))
  if (problem !== null) return { outcome: 'invalid', problem }
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
