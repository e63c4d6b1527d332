import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { findCatalog, recordCatalog } from '#shared/adapters/postgres/configuration/catalogs.ts'
import { createConfigurationReader } from '#shared/adapters/postgres/configuration/configuration-reader.ts'
import { createConfigurationStore } from '#shared/adapters/postgres/configuration/configuration-store.ts'
import { importChangedFile, importFirstFiles } from '#shared/adapters/postgres/configuration/import-files.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { Author } from '#shared/operators/author.ts'
import type { ConfigurationReader } from '#shared/operators/configuration.ts'
import type { ConfigurationStore } from '#shared/operators/configuration-store.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const ADA: Author = { operator: 'ada', source: 'console' }
const GRACE: Author = { operator: 'grace', source: 'command' }
const DEPLOYMENTS = {
  deployments: [
    {
      name: 'one',
      adapter: 'gemini',
      base_url: 'http://127.0.0.1:9',
      upstream_model: 'any',
      serves: ['textmodel-2.5-pro'],
    },
  ],
} as const
const catalogOf = (inputPrice: string) => ({
  models: { 'textmodel-2.5-pro': { input_per_million_tokens: inputPrice } },
})

let ledger: TestLedger
let store: ConfigurationStore
let reader: ConfigurationReader
beforeAll(async () => {
  ledger = await createTestLedger()
  store = createConfigurationStore(ledger.pool)
  reader = createConfigurationReader(ledger.pool)
})
afterAll(() => ledger.close())
beforeEach(async () => {
  await ledger.sql('TRUNCATE configuration_drafts, publications')
})

const actions = async () =>
  (
    await ledger.sql<{ line: string }>(`SELECT operator || ' ' || action || ' ' || subject AS line FROM operator_actions
     ORDER BY id DESC`)
  ).map(({ line }) => line)
const publishFirst = () => importFirstFiles(ledger.pool, [{ kind: 'deployments', content: DEPLOYMENTS }])

const publish = (author: Author, price: string, basedOn: bigint | null, alongside: bigint | null = null) =>
  store.publish(author, { kind: 'catalog', content: catalogOf(price), reason: 'price', basedOn, alongside })
const save = (author: Author, edited: bigint | null, price = '1.3') =>
  store.saveDraft(author, { kind: 'catalog', content: catalogOf(price), edited })

describe('the import at the start of a process', () => {
  it('publishes the files once, however many processes start together', async () => {
    const files = [
      { kind: 'catalog', content: catalogOf('1.3') },
      { kind: 'deployments', content: DEPLOYMENTS },
    ] as const
    const differing = await Promise.all(Array.from({ length: 8 }, () => importFirstFiles(ledger.pool, files)))
    expect(differing).toEqual(Array.from({ length: 8 }, () => []))
    for (const kind of ['catalog', 'deployments'] as const)
      expect(await store.listPublications(kind, { limit: 10 })).toEqual([
        expect.objectContaining({ kind, operator: 'import', reason: 'first start' }),
      ])
    expect((await actions()).slice(0, 2).toSorted()).toEqual([
      'import configuration.import catalog',
      'import configuration.import deployments',
    ])
  })

  it('leaves what is in force alone, and names the kinds whose file is another one', async () => {
    await publishFirst()
    const inOtherOrder = {
      deployments: DEPLOYMENTS.deployments.map((one) => Object.fromEntries(Object.entries(one).toReversed())),
    }
    expect(await importFirstFiles(ledger.pool, [{ kind: 'deployments', content: inOtherOrder }])).toEqual([])
    const other = [{ kind: 'deployments', content: { deployments: [] } }] as const
    expect(await importFirstFiles(ledger.pool, other)).toEqual(['deployments'])
    expect((await store.findNewest('deployments'))?.content).toEqual(DEPLOYMENTS)
  })

  it('a changed file of the sandbox is published, and the same one leaves a later publication in force', async () => {
    await publishFirst()
    const file = { kind: 'deployments', content: { deployments: [] }, reason: 'restart' } as const
    await importChangedFile(ledger.pool, GRACE, file)
    const first = await store.findNewest('deployments')
    expect(first).toMatchObject({ content: { deployments: [] }, operator: 'grace' })
    await store.publish(ADA, {
      kind: 'deployments',
      content: DEPLOYMENTS,
      reason: 'again',
      basedOn: first?.number ?? null,
      alongside: null,
    })
    await importChangedFile(ledger.pool, GRACE, file)
    expect((await store.findNewest('deployments'))?.content).toEqual(DEPLOYMENTS)
    expect(await store.importFile(GRACE, file)).toMatchObject({ outcome: 'published' })
    expect(await store.importFile(GRACE, file)).toMatchObject({ outcome: 'unchanged' })
  })
})

describe('the configuration', () => {
  it('is none before deployments are published, and the built-in catalog before one is published', async () => {
    expect(await reader.readConfiguration()).toBeNull()
    await publishFirst()
    expect(await reader.readConfiguration()).toMatchObject({
      catalog: { number: 0n, overrides: { models: {} } },
      deployments: { file: { deployments: [{ name: 'one', priority: 0, weight: 1 }] } },
    })
  })

  it('is read as of one revision, which each publication raises', async () => {
    await publishFirst()
    const before = await reader.readRevision()
    const published = await store.publish(ADA, {
      kind: 'catalog',
      content: catalogOf('1.4'),
      reason: 'dearer',
      basedOn: null,
      alongside: (await store.findNewest('deployments'))?.number ?? null,
    })
    expect(published).toMatchObject({ outcome: 'published', revision: before + 1n })
    expect(await reader.readConfiguration()).toMatchObject({
      revision: before + 1n,
      catalog: { overrides: catalogOf('1.4') },
    })
    expect((await actions())[0]).toBe('ada configuration.publish catalog')
  })
})

describe('a publication', () => {
  it('of two operators at once, the second is refused and learns who was first', async () => {
    const outcomes = await Promise.all([publish(ADA, '1.3', null), publish(GRACE, '1.4', null)])
    const [published] = outcomes.filter(({ outcome }) => outcome === 'published')
    const [refused] = outcomes.filter(({ outcome }) => outcome === 'newer_publication')
    const newest = await store.findNewest('catalog')
    expect(published).toMatchObject({ number: newest?.number })
    expect(refused).toMatchObject({ newest: { number: newest?.number, operator: newest?.operator } })
    expect(await store.listPublications('catalog', { limit: 10 })).toHaveLength(1)
  })

  it('that was validated together with other deployments than those in force is refused', async () => {
    await publishFirst()
    expect(await publish(ADA, '1.3', null, null)).toMatchObject({
      outcome: 'newer_publication',
      newest: { kind: 'deployments' },
    })
    expect(await store.findNewest('catalog')).toBeNull()
  })

  it('ends its draft, and is refused when somebody else edited it', async () => {
    const saved = await store.saveDraft(ADA, { kind: 'catalog', content: catalogOf('1.3'), edited: null })
    if (saved.outcome !== 'saved') throw new Error('the draft was not saved')
    const edited = await store.saveDraft(GRACE, {
      kind: 'catalog',
      content: catalogOf('1.4'),
      edited: saved.draft.revision,
    })
    const next = {
      kind: 'catalog',
      content: catalogOf('1.3'),
      reason: 'price',
      basedOn: null,
      alongside: null,
    } as const
    expect(await store.publish(ADA, { ...next, draft: saved.draft.revision })).toMatchObject({
      outcome: 'newer_draft',
      draft: { operator: 'grace', content: catalogOf('1.4') },
    })
    expect(await store.findNewest('catalog')).toBeNull()
    if (edited.outcome !== 'saved') throw new Error('the draft was not edited')
    expect(await store.publish(ADA, { ...next, draft: edited.draft.revision })).toMatchObject({ outcome: 'published' })
    expect(await store.findDraft('catalog')).toBeNull()
  })

  it('is listed newest first, page by page, and never changes', async () => {
    const first = await publish(ADA, '1.3', null)
    if (first.outcome !== 'published') throw new Error('not published')
    await publish(ADA, '1.4', first.number)
    const [newest] = await store.listPublications('catalog', { limit: 1 })
    expect(await store.listPublications('catalog', { limit: 1, before: newest?.number ?? 0n })).toEqual([
      expect.objectContaining({ number: first.number }),
    ])
    await expect(ledger.sql('UPDATE publications SET reason = $1', ['other'])).rejects.toThrow('immutable')
    await expect(ledger.sql('DELETE FROM publications')).rejects.toThrow('immutable')
  })
})

describe('a draft', () => {
  it('of two operators who begin one at once exists once', async () => {
    const outcomes = await Promise.all([save(ADA, null), save(GRACE, null)])
    expect(outcomes.map(({ outcome }) => outcome).toSorted()).toEqual(['newer_draft', 'saved'])
  })

  it('that is begun after another one ended is not taken for that one', async () => {
    const first = await save(ADA, null)
    if (first.outcome !== 'saved') throw new Error('not saved')
    expect(await store.discardDraft(ADA, 'catalog', first.draft.revision + 1n)).toBe(false)
    expect(await store.discardDraft(ADA, 'catalog', first.draft.revision)).toBe(true)
    expect((await actions())[0]).toBe('ada configuration.discard catalog')
    await save(GRACE, null, '1.5')
    expect(await save(ADA, first.draft.revision)).toMatchObject({
      outcome: 'newer_draft',
      draft: { operator: 'grace' },
    })
  })
})

describe('a recorded catalog', () => {
  it('is read as it was under its version, and never changes', async () => {
    expect(await findCatalog(ledger.pool, publishedCatalog.version)).toBeNull()
    await Promise.all([recordCatalog(ledger.pool, publishedCatalog), recordCatalog(ledger.pool, publishedCatalog)])
    expect(await findCatalog(ledger.pool, publishedCatalog.version)).toEqual(publishedCatalog)
    await expect(ledger.sql('DELETE FROM catalogs')).rejects.toThrow('immutable')
  })
})
