import type { FastifyInstance, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { ConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import type { DraftEdit, DraftOutcome } from '#shared/ledger/configuration/drafts.ts'
import type { OperatorStore } from '#shared/ledger/operators/operator-store.ts'
import type { Author } from '#shared/operators/author.ts'
import type { PublicationKind } from '#shared/operators/configuration.ts'
import { LONGEST_PASSWORD } from '#shared/operators/operator-account.ts'
import type { Draft } from '#shared/operators/publication.ts'
import { contentsOf, publishContent, readInForce, whyNotPublished } from '#shared/operators/review-configuration.ts'
import { parseJson, problemOf } from '#shared/operators/validate-configuration.ts'
import type { Done, Refused } from '../../rendering/outcomes.ts'
import { addAction, done, notFound, refused } from '../../rendering/page.ts'
import { whyNotTheirs } from '../../sessions/check-password.ts'
import { priceFields, withPrices } from './price-fields.ts'

export interface PublishingDependencies {
  readonly configuration: ConfigurationStore
  readonly accounts: OperatorStore
  readonly sessions: OperatorStore
}

/** A number that the form carries; empty where there was nothing. */
const seen = z
  .string()
  .regex(/^\d{0,18}$/)
  .transform((text) => (text === '' ? null : BigInt(text)))

const LONGEST_CONTENT = 1_000_000
const OTHER_EDIT =
  'Somebody else edited the draft after you opened it. It is shown below; your own text is in the form.'

/** Adds what operators do with a draft: save, discard, publish, and begin one from an earlier publication. */
export function addDraftActions(
  app: FastifyInstance,
  dependencies: PublishingDependencies,
  kind: PublicationKind,
): void {
  const { configuration: store } = dependencies
  const page = `/operator/${kind}`
  addAction(app, {
    path: `/operator/${kind}/draft`,
    page,
    fields: z.object({
      content: z.string().max(LONGEST_CONTENT, 'This is too long.'),
      draft: seen,
      based_on: seen,
    }),
    run: async ({ fields }, author) => {
      const content = contentOf(fields.content)
      if (content === undefined) return refused('The draft was not saved.', { content: 'This is not valid JSON.' })
      const edit = { kind, content, edited: fields.draft, basedOn: fields.based_on }
      return await save(store, author, edit, (problem) => refused('The draft was not saved.', { content: problem }))
    },
  })
  if (kind === 'catalog') addPrices(app, store)
  addAction(app, {
    path: `/operator/${kind}/draft/discard`,
    page,
    fields: z.object({ draft: seen }),
    run: async ({ fields }, author) =>
      fields.draft !== null && (await store.discardDraft(author, kind, fields.draft))
        ? done('The draft is discarded.', page)
        : refused(OTHER_EDIT),
  })
  addPublish(app, dependencies, kind)
  addAction(app, {
    path: `/operator/${kind}/publications/:number/draft`,
    page: `/operator/${kind}/publications/:number`,
    fields: z.object({ draft: seen }),
    run: async ({ params, fields }, author) => {
      const { number } = params as { readonly number: string }
      const publication = /^\d{1,18}$/.test(number) ? await store.findPublication(BigInt(number)) : null
      if (publication?.kind !== kind) return notFound('There is no such publication.')
      const basedOn = (await store.findNewest(kind))?.number ?? null
      const edit = { kind, content: publication.content, edited: fields.draft, basedOn }
      return isSaved(await store.saveDraft(author, edit))
        ? done(`The draft is publication ${number} now. Nothing is published yet.`, `${page}#draft`)
        : refused('Somebody else edited the draft after you opened this page. Submit again to replace it.')
    },
  })
}

/** Adds the form of a model's prices, which changes them in the draft, or begins one from what is in force. */
function addPrices(app: FastifyInstance, store: ConfigurationStore): void {
  addAction(app, {
    path: '/operator/catalog/models/:model/draft',
    page: '/operator/catalog',
    fields: priceFields.extend({ draft: seen }),
    run: async ({ params: { model }, fields: { draft: edited, ...prices } }, author) => {
      const [inForce, draft] = await Promise.all([readInForce(store), store.findDraft('catalog')])
      const content = withPrices(draft?.content ?? contentsOf(inForce).catalog, model, prices)
      if (content === null) return notFound('The catalog has no such model.')
      const edit = { kind: 'catalog', content, edited, basedOn: inForce.catalog?.number ?? null } as const
      return await save(store, author, edit, (problem) => refused(`The draft was not saved: ${problem}`))
    },
  })
}

/** Saves a draft that could be published, unless somebody else edited it in the meantime. */
async function save(
  store: ConfigurationStore,
  author: Author,
  edit: DraftEdit,
  refuse: (problem: string) => Refused,
): Promise<Done | Refused> {
  const problem = problemOf(edit.kind, contentsOf(await readInForce(store), { [edit.kind]: edit.content }))
  if (problem !== null) return refuse(problem)
  return isSaved(await store.saveDraft(author, edit))
    ? done('The draft is saved. Nothing is published yet.', `/operator/${edit.kind}#draft`)
    : refused(OTHER_EDIT)
}

function addPublish(app: FastifyInstance, dependencies: PublishingDependencies, kind: PublicationKind): void {
  const { configuration: store } = dependencies
  const page = `/operator/${kind}`
  addAction(app, {
    path: `/operator/${kind}/publish`,
    page,
    fields: z.object({
      reason: z.string().trim().min(1, 'Say why: the history shows it.').max(1000),
      password: z.string().max(LONGEST_PASSWORD).default(''),
      draft: seen,
      catalog: seen,
      deployments: seen,
    }),
    run: async ({ fields }, author, request) => {
      const [inForce, draft] = await Promise.all([readInForce(store), store.findDraft(kind)])
      const isAsSeen =
        (inForce.catalog?.number ?? null) === fields.catalog &&
        (inForce.deployments?.number ?? null) === fields.deployments &&
        draft !== null &&
        draft.revision === fields.draft
      if (!isAsSeen) return refused('Somebody else edited or published after you opened this page. Review it again.')
      const { content } = draft
      const { reason, password } = fields
      const reviewed = { kind, content, reason, inForce, draft }
      let published = await publishContent(store, author, reviewed)
      if (published.outcome === 'unconfirmed') {
        const refusal = await whyNotConfirmed(dependencies, request, author, { draft, password })
        if (refusal !== null) return refusal
        published = await publishContent(store, author, { ...reviewed, confirmsDestinations: true })
      }
      return published.outcome === 'published'
        ? done(`Published as number ${published.number}. All processes apply it within two seconds.`, page)
        : refused(whyNotPublished(published))
    },
  })
}

/**
 * Returns why an operator may not let a key go where it did not go before; `null` when they may. A session that
 * somebody else has taken over is not enough: it takes the password, and a second person where there is one.
 */
async function whyNotConfirmed(
  { accounts, sessions }: PublishingDependencies,
  request: FastifyRequest,
  author: Author,
  { draft, password }: { readonly draft: Draft; readonly password: string },
) {
  const actors = (await accounts.listAccounts()).filter(({ role, disabledAt }) => role === 'act' && disabledAt === null)
  if (actors.length > 1 && draft.operator === author.operator)
    return refused('You edited this draft, and it sends a key to a new host: another operator has to publish it.')
  const problem = password === '' ? 'wrong' : await whyNotTheirs(sessions, request, author, password)
  if (problem === null) return null
  const sentence = problem === 'wrong' ? 'This is not your password.' : problem.throttled
  return refused('Nothing was published.', { password: sentence })
}

function isSaved({ outcome }: DraftOutcome): boolean {
  return outcome === 'saved'
}

function contentOf(text: string): JsonValue | undefined {
  try {
    return parseJson(text, 'draft')
  } catch {
    return undefined
  }
}
