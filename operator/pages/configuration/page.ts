import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { Catalog, Model, TextModel } from '#shared/catalog/catalog.ts'
import type { ConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { catalogsOfContents } from '#shared/operators/catalogs-of-configuration.ts'
import { PUBLICATION_KINDS, type PublicationKind } from '#shared/operators/configuration.ts'
import { contentsOf, lineOfDestination, readInForce, reviewContent } from '#shared/operators/review-configuration.ts'
import { linksAround, listPosition } from '../../rendering/list-position.ts'
import { addPage, notFound } from '../../rendering/page.ts'
import { addDraftActions, type PublishingDependencies } from './draft-actions.ts'
import { priceForms } from './price-fields.ts'

/** A model as the overview lists it. */
interface ListedModel {
  readonly id: string
  /** Such as `0.50 in, 3.00 out for 1M tokens`. */
  readonly price: string
  readonly bounds: string
  readonly limits: string
}

export type ConfigurationPageDependencies = PublishingDependencies

const TITLES: Readonly<Record<PublicationKind, string>> = { catalog: 'Catalog', deployments: 'Deployments' }
const HISTORY = 20
const number = z
  .string()
  .regex(/^\d{1,18}$/)
  .transform(BigInt)

/** Adds the pages of the catalog and of the deployments: what is in force, the draft, and every publication. */
export function addConfigurationPages(app: FastifyInstance, dependencies: ConfigurationPageDependencies): void {
  const { configuration } = dependencies
  for (const kind of PUBLICATION_KINDS) {
    addOverview(app, configuration, kind)
    addPublication(app, configuration, kind)
    addDraftActions(app, dependencies, kind)
  }
}

function addOverview(app: FastifyInstance, store: ConfigurationStore, kind: PublicationKind): void {
  addPage(app, {
    path: `/operator/${kind}`,
    query: z.object(listPosition((id) => number.safeParse(id).success)),
    read: async ({ query: { after, before } }) => {
      const [inForce, draft, history] = await Promise.all([
        readInForce(store),
        store.findDraft(kind),
        store.listPublications(kind, { limit: HISTORY, after, before }),
      ])
      const contents = contentsOf(inForce)
      const review = draft && (await reviewContent(store, inForce, kind, draft.content))
      return {
        title: TITLES[kind],
        view: 'configuration/overview',
        data: {
          kind,
          newest: inForce[kind],
          seen: { catalog: textOf(inForce.catalog?.number), deployments: textOf(inForce.deployments?.number) },
          content: pretty(draft?.content ?? contents[kind]),
          draft,
          review,
          destinations: review?.outcome === 'valid' ? review.destinations.map(lineOfDestination) : [],
          hasNewDestination: review?.outcome === 'valid' && review.destinations.some(({ isNew }) => isNew),
          priceForms: kind === 'catalog' ? priceForms(draft?.content ?? contents.catalog) : [],
          prices: kind === 'catalog' ? listPrices(catalogsOfContents(contents).offered) : [],
          history: history.entries,
          around: linksAround(`/operator/${kind}`, {}, history),
        },
      }
    },
  })
}

function addPublication(app: FastifyInstance, store: ConfigurationStore, kind: PublicationKind): void {
  addPage(app, {
    path: `/operator/${kind}/publications/:number`,
    query: z.object({}),
    read: async ({ params }) => {
      const given = number.safeParse((params as { readonly number: string }).number)
      const publication = given.success ? await store.findPublication(given.data) : null
      if (publication?.kind !== kind) return notFound('There is no such publication.')
      const draft = await store.findDraft(kind)
      return {
        title: `${TITLES[kind]}, publication ${publication.number}`,
        view: 'configuration/publication',
        data: { kind, publication, content: pretty(publication.content), draftRevision: textOf(draft?.revision) },
      }
    },
  })
}

/** Returns what a form carries of a number that its author has seen; empty for none. */
function textOf(seen: bigint | undefined): string {
  return seen?.toString() ?? ''
}

function pretty(content: unknown): string {
  return JSON.stringify(content, null, 2)
}

/** Returns what callers are offered while no deployment is drained. */
function listPrices({ models }: Catalog): readonly ListedModel[] {
  return models.map((model) => ({
    id: model.id,
    price: priceOf(model),
    bounds: `${model.minimumChargeUsd} to ${model.maximumChargeUsd}`,
    limits: limitsOf(model),
  }))
}

function priceOf(model: Model): string {
  switch (model.category) {
    case 'text_generation':
      return `${inputPrices(model)}, ${model.outputPerMillionTokensUsd} out for 1M tokens`
    case 'image_generation':
      return `${model.pricePerImageUsd} for an image`
    case 'text_to_speech':
      return `${model.pricePerThousandCharactersUsd} for 1,000 characters`
    case 'speech_to_text':
      return `${model.pricePerAudioHourUsd} for an hour`
  }
}

function inputPrices({
  inputPerMillionTokensUsd: input,
  cachedInputPerMillionTokensUsd: cached,
  cacheWritePerMillionTokensUsd: written,
}: TextModel): string {
  const parts = [cached === undefined ? [] : [`${cached} cached`], written === undefined ? [] : [`${written} written`]]
  return [`${input} in`, ...parts.flat()].join(', ')
}

function limitsOf(model: Model): string {
  switch (model.category) {
    case 'text_generation':
      return `${model.maximumOutputTokens} output tokens, ${model.contextWindow} in all`
    case 'image_generation':
      return 'one image'
    case 'text_to_speech':
      return `${model.maximumCharacters} characters, default voice ${model.defaultVoice}`
    case 'speech_to_text':
      return `${(model.minimumAudioDurationMs ?? 0) / 1000} to ${model.maximumAudioDurationMs / 1000} s, ${model.maximumAudioBytes} bytes`
  }
}
