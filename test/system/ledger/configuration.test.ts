import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { findCatalog, recordCatalog } from '#shared/ledger/configuration/catalogs.ts'
import {
  type ConfigurationReader,
  createConfigurationReader,
} from '#shared/ledger/configuration/configuration-reader.ts'
import { type ConfigurationStore, createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { importChangedFile, importFirstFiles } from '#shared/ledger/configuration/import-files.ts'
import { createProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import type { Author } from '#shared/operators/author.ts'
import { main as catalogCommand } from '../../../infra/commands/catalog/main.ts'
import { main as deploymentsCommand } from '../../../infra/commands/deployments/main.ts'
import { main } from '../../../infra/commands/resolve/main.ts'
import { sandboxDeployments } from '../../../infra/sandbox/deployments.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { inDebt, inReview } from '../../support/ledger/open-item.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { callCommand } from '../../support/processes/call-command.ts'

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
const TRANSCRIPTION = 'speechvendor/scribe-v2'
const UNKNOWN = 'review:00000000-0000-4000-8000-000000000000'

describe('the configuration in the ledger', () => {
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
      await ledger.sql<{
        line: string
      }>(`SELECT operator || ' ' || action || ' ' || subject AS line FROM operator_actions
     ORDER BY id DESC`)
    ).map(({ line }) => line)
  const publishFirst = () => importFirstFiles(ledger.pool, [{ kind: 'deployments', content: DEPLOYMENTS }])
  const publish = (author: Author, price: string, basedOn: bigint | null, alongside: bigint | null = null) =>
    store.publish(author, { kind: 'catalog', content: catalogOf(price), reason: 'price', basedOn, alongside })
  const save = (author: Author, edited: bigint | null, price = '1.3') =>
    store.saveDraft(author, { kind: 'catalog', content: catalogOf(price), edited, basedOn: null })
  describe('the import at the start of a process', () => {
    it('publishes the files once, however many processes start together', async () => {
      const files = [
        { kind: 'catalog', content: catalogOf('1.3') },
        { kind: 'deployments', content: DEPLOYMENTS },
      ] as const
      const differing = await Promise.all(Array.from({ length: 8 }, () => importFirstFiles(ledger.pool, files)))
      expect(differing).toEqual(Array.from({ length: 8 }, () => []))
      for (const kind of ['catalog', 'deployments'] as const)
        expect((await store.listPublications(kind, { limit: 10, after: null })).entries).toEqual([
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
      expect((await store.listPublications('catalog', { limit: 10, after: null })).entries).toHaveLength(1)
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
      const saved = await store.saveDraft(ADA, {
        kind: 'catalog',
        content: catalogOf('1.3'),
        edited: null,
        basedOn: null,
      })
      if (saved.outcome !== 'saved') throw new Error('the draft was not saved')
      const edited = await store.saveDraft(GRACE, {
        kind: 'catalog',
        content: catalogOf('1.4'),
        edited: saved.draft.revision,
        basedOn: null,
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
      expect(await store.publish(ADA, { ...next, draft: edited.draft.revision })).toMatchObject({
        outcome: 'published',
      })
      expect(await store.findDraft('catalog')).toBeNull()
    })

    it('is listed newest first, page by page, and never changes', async () => {
      const first = await publish(ADA, '1.3', null)
      if (first.outcome !== 'published') throw new Error('not published')
      await publish(ADA, '1.4', first.number)
      const newest = await store.listPublications('catalog', { limit: 1, after: null })
      expect(await store.listPublications('catalog', { limit: 1, after: newest.next })).toMatchObject({
        entries: [{ number: first.number }],
        next: null,
      })
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
})

describe('the commands that publish a configuration', () => {
  let ledger: TestLedger
  let directory: string
  beforeEach(async () => {
    ledger = await createTestLedger()
    directory = await mkdtemp(join(tmpdir(), 'farebox-configuration-'))
    const deployments = sandboxDeployments({
      upstreamUrl: 'http://127.0.0.1:9',
      apiKeyEnv: 'KEY',
      models: publishedCatalog.models,
      voices: ['darian', 'talia'],
    })
    const { errors } = await run('deployments', 'import', await write(deployments), '--reason', 'first')
    if (errors !== '') throw new Error(errors)
  })

  afterEach(async () => {
    await ledger.close()
    await rm(directory, { recursive: true, force: true })
  })

  const COMMANDS = { catalog: catalogCommand, deployments: deploymentsCommand }
  const run = (kind: 'catalog' | 'deployments', ...words: readonly string[]) =>
    callCommand(() => COMMANDS[kind]([...words, '--as', 'ada'], { DATABASE_URL: ledger.url }))
  const catalog = (...words: readonly string[]) => run('catalog', ...words)
  async function write(content: unknown): Promise<string> {
    const path = join(directory, `${crypto.randomUUID()}.json`)
    await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
    return path
  }
  const catalogFile = (price: string) => write({ models: { [TRANSCRIPTION]: { price_per_audio_hour_usd: price } } })
  const others = (...words: readonly string[]) =>
    callCommand(() => catalogCommand([...words, '--as', 'grace'], { DATABASE_URL: ledger.url }))
  describe('npm run catalog', () => {
    it('shows a content that can be edited, of the built-in catalog as well', async () => {
      const { output, errors } = await catalog('show')
      expect(errors).toContain('the built-in catalog is in force')
      expect((await catalog('validate', await write(output))).output).toBe('The content is valid.\n')
    })

    it('a draft is saved, reviewed, published and listed', async () => {
      await jobInState(ledger, 'completed')
      expect(await catalog('draft', await catalogFile('0.119'))).toMatchObject({
        exitCode: 0,
        output: 'The draft is saved.\n',
      })
      expect((await catalog('validate')).output).toBe('The content is valid.\n')
      const { output } = await catalog('diff')
      expect(output).toContain(`model ${TRANSCRIPTION}, price per audio hour usd: 0.122 → 0.119`)
      expect(output).toMatch(/all +1 calls, charged 0.005034 → 0.005034 USDC \(then 0.005034\)/)
      expect((await catalog('publish', '--reason', 'cheaper hours')).output).toMatch(/^Published as catalog \d+/)
      expect((await catalog('history')).output).toMatch(/ada {2}cheaper hours$/m)
      const shown = await catalog('show')
      expect(JSON.parse(shown.output)).toEqual({ models: { [TRANSCRIPTION]: { price_per_audio_hour_usd: '0.119' } } })
      expect(shown.errors).toMatch(/ada {2}cheaper hours$/m)
      expect(await catalog('diff')).toMatchObject({ exitCode: 1, errors: expect.stringContaining('There is no draft') })
    })

    it('every command prints one JSON object with --json', async () => {
      const file = await catalogFile('0.118')
      for (const words of [['show'], ['history'], ['draft', file], ['draft'], ['validate'], ['diff'], ['discard']])
        expect(JSON.parse((await catalog(...words, '--json')).output)).toBeTypeOf('object')
    })

    it('a content that is not valid is refused with the reason, and nothing is published', async () => {
      const before = (await catalog('history')).output
      const free = await catalogFile('0')
      for (const command of ['validate', 'diff'])
        expect(await catalog(command, free)).toMatchObject({ exitCode: 1, errors: expect.stringContaining('above 0') })
      for (const command of ['publish', 'import'])
        expect(await catalog(command, free, '--reason', 'gift')).toMatchObject({
          exitCode: 1,
          errors: expect.stringContaining('above 0'),
        })
      const broken = await write('{"models": {"secret-text"')
      expect(await catalog('publish', broken, '--reason', 'x')).toMatchObject({
        exitCode: 1,
        errors: expect.stringMatching(/^((?!secret-text).)*not valid JSON\n$/s),
      })
      expect((await catalog('history')).output).toBe(before)
    })

    it('the draft of somebody else is replaced only when asked for', async () => {
      const file = await catalogFile('0.117')
      expect((await catalog('draft', file)).exitCode).toBe(0)
      expect(await others('draft', file)).toMatchObject({ exitCode: 1, errors: expect.stringContaining('ada edited') })
      expect((await others('draft', file, '--replace')).exitCode).toBe(0)
      expect((await others('discard')).exitCode).toBe(0)
    })

    it.each([
      [[], 'Commands:'],
      [['remove'], "unknown command 'remove'"],
      [['import', '--reason', 'x'], "missing required argument 'file'"],
      [['publish'], "required option '--reason <text>' not specified"],
      [['publish', '--reason', ' '], '--reason is empty'],
      [['history', 'more'], 'too many arguments'],
      [['show', '1', '2'], 'too many arguments'],
      [['show', '-1'], '"-1" is not a number'],
      [['show', 'one'], '"one" is not a number'],
      [['draft', '/nowhere/catalog.json'], 'cannot be read'],
      [['show', '--as', 'Ada Lovelace'], '--as must have lower-case letters'],
    ])('%j is a wrong argument', async (words, message) => {
      const { exitCode, errors } = await callCommand(() => catalogCommand(words, { DATABASE_URL: ledger.url }))
      expect({ exitCode, errors }).toEqual({ exitCode: 2, errors: expect.stringContaining(message) })
      expect(errors).toContain('Usage: npm run catalog')
    })

    it('a database that cannot be reached is said in one line', async () => {
      const environment = { DATABASE_URL: 'postgres://127.0.0.1:9/none' }
      const { exitCode, errors } = await callCommand(() => catalogCommand(['show'], environment))
      expect({ exitCode, lines: errors.trimEnd().split('\n').length }).toEqual({ exitCode: 2, lines: 1 })
    })

    it('prints its help', async () => {
      expect((await callCommand(() => catalogCommand(['--help'], {}))).output).toContain('Usage:')
    })
  })

  it('a draft that was begun before another publication undoes it only with --replace', async () => {
    expect((await catalog('draft', await catalogFile('0.119'))).exitCode).toBe(0)
    expect((await others('publish', await catalogFile('0.11'), '--reason', 'cheaper')).exitCode).toBe(0)
    expect(await catalog('publish', '--reason', 'mine')).toMatchObject({
      exitCode: 1,
      errors: expect.stringMatching(/^grace published catalog \d+ after this draft was begun/),
    })
    expect((await catalog('show')).output).toContain('"0.11"')
    expect((await catalog('publish', '--reason', 'mine', '--replace')).exitCode).toBe(0)
  })
})

describe('npm run deployments', () => {
  const EVIL = 'https://evil.test'
  let ledger: TestLedger
  let directory: string
  beforeAll(async () => {
    ledger = await createTestLedger()
    directory = await mkdtemp(join(tmpdir(), 'farebox-deployments-'))
  })

  afterAll(async () => {
    await ledger.close()
    await rm(directory, { recursive: true, force: true })
  })

  const file = async (api_key_env: string, base_url: string) => {
    const path = join(directory, `${randomUUID()}.json`)
    await writeFile(path, JSON.stringify({ deployments: [{ ...DEPLOYMENTS.deployments[0], api_key_env, base_url }] }))
    return path
  }
  const run = (...words: readonly string[]) =>
    callCommand(() => deploymentsCommand([...words, '--as', 'ada'], { DATABASE_URL: ledger.url }))
  const published = () =>
    ledger.sql<{ sent: string }>(
      `SELECT content #>> '{deployments,0,api_key_env}' || ' ' || (content #>> '{deployments,0,base_url}') AS sent
       FROM publications ORDER BY number`,
    )

  it('sends a key to a new host only with --new-hosts, and says which', async () => {
    expect(await run('import', await file('A_KEY', 'https://a.test'), '--reason', 'first')).toMatchObject({
      exitCode: 0,
    })
    const moved = await file('A_KEY', 'https://b.test')
    for (const command of ['publish', 'import'])
      expect(await run(command, moved, '--reason', 'moved')).toMatchObject({
        exitCode: 1,
        errors: expect.stringMatching(/key A_KEY goes to https:\/\/b\.test \(new\)\. Add --new-hosts/),
      })
    expect((await run('diff', moved)).output).toContain('Where keys go\n  key A_KEY goes to https://b.test (new)')
    const done = await run('publish', moved, '--reason', 'moved', '--new-hosts')
    expect(done).toMatchObject({
      exitCode: 0,
      output: expect.stringMatching(/^key A_KEY goes to https:\/\/b.test \(new\)/),
    })
    // What is in force already is no longer new.
    expect((await run('import', moved, '--reason', 'again')).exitCode).toBe(0)
    expect((await published()).map(({ sent }) => sent)).toEqual([
      'A_KEY https://a.test',
      'A_KEY https://b.test',
      'A_KEY https://b.test',
    ])
  })

  it('says of a file which models it would have sold below cost', async () => {
    const prices = { output_per_million_tokens: '99', as_of: '2026-11-26', source: 'https://prices.test' }
    const path = join(directory, 'dear.json')
    await writeFile(path, JSON.stringify({ deployments: [{ ...DEPLOYMENTS.deployments[0], prices }] }))
    const sentence = /^textmodel-2\.5-pro is sold below cost: output_per_million_tokens is [\d.]+, and one costs 99$/m
    expect((await run('diff', path)).output).toMatch(sentence)
    expect((await run('diff', await file('A_KEY', 'https://a.test'))).output).not.toContain('below cost')
  })

  it('refuses settings as keys, and keys at hosts that a running worker does not send them to, which is named', async () => {
    await createProcessReportStore(ledger.pool).writeReport(
      { instance: 'worker-7', kind: 'worker', startedAt: new Date() },
      { version: '1', configurationRevision: '1', keys: {}, providerKeys: { A_KEY: ['https://b.test'] } },
    )
    const before = (await published()).length
    for (const [content, message] of [
      [await file('SETTLEMENT_PRIVATE_KEYS', 'https://b.test'), /SETTLEMENT_PRIVATE_KEYS is a setting of farebox/],
      [await file('A_KEY', EVIL), /deployment one, worker worker-7: A_KEY may not be sent to https:\/\/evil.test/],
    ] as const) {
      for (const words of [['validate'], ['diff'], ['publish'], ['import']]) {
        const reason = words[0] === 'publish' || words[0] === 'import' ? ['--reason', 'x', '--new-hosts'] : []
        expect(await run(...words, content, ...reason)).toMatchObject({
          exitCode: 1,
          errors: expect.stringMatching(message),
        })
      }
      expect((await run('draft', content)).output).toMatch(message)
      expect(await run('publish', '--reason', 'x', '--new-hosts')).toMatchObject({ exitCode: 1 })
    }
    expect(await published()).toHaveLength(before)
  })
})

describe('npm run resolve', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger(2)
  })
  afterAll(() => ledger.close())
  afterEach(() => {
    vi.restoreAllMocks()
  })
  async function run(...commandLine: readonly string[]) {
    const output: string[] = []
    const errors: string[] = []
    vi.spyOn(console, 'log').mockImplementation((text: string) => output.push(text))
    vi.spyOn(console, 'error').mockImplementation((text: string) => errors.push(text))
    const exitCode = await main(commandLine, { DATABASE_URL: ledger.url })
    return { exitCode, output: output.join('\n'), errors: errors.join('\n') }
  }

  it.each([
    [['forgive'], /ITEM must be an id of the list/],
    [['review:1', 'refunded'], /ITEM must be an id of the list/],
    [['list', 'more'], /too many arguments/],
    [['list', '--kind', 'thing'], /--kind must be one of review, settlement, unknown_settlement, debt/],
    [['list', '--payer', '0x12'], /--payer must be 0x and 40/],
    [['list', '--reason', 'x'], /unknown option '--reason'/],
    [['show'], /missing required argument 'item'/],
    [[UNKNOWN, 'gone', '--reason', 'x'], /OUTCOME must be one of paid_outside, refunded/],
    [[UNKNOWN, 'written_off'], /--reason is missing/],
    [[UNKNOWN, 'refunded', '--reason', 'x'], /--transaction is missing/],
    [[UNKNOWN, 'written_off', '--reason', 'x', '--as', 'Anna!'], /--as must have/],
    [[UNKNOWN, 'refunded', '--reason', 'x', '--transaction', '0x1'], /RPC_URL is not set/],
    [['--colour'], /unknown option '--colour'/],
  ])('%j: says what is wrong, and exits with 2', async (commandLine, message) => {
    const { exitCode, errors } = await run(...commandLine)
    expect({ exitCode, errors }).toEqual({ exitCode: 2, errors: expect.stringMatching(message) })
    expect(errors).toContain('Usage: npm run resolve')
  })

  it('lists what is open, with the outcomes that each may have, and ends it', async () => {
    const [review, debt] = [await inReview(ledger), await inDebt(ledger)]
    const listed = await run()
    expect(listed).toMatchObject({ exitCode: 0, errors: '' })
    expect(listed.output).toMatch(new RegExp(`${review.id}[^]*may be +refunded, paid_outside, written_off, re_served`))
    expect(listed.output).toMatch(
      new RegExp(`${debt.id}[^]*0\\.005034 USDC[^]*may be +paid_outside, forgiven, written_off`),
    )
    expect((await run('list', '--kind', 'debt', '--json')).output).not.toContain(review.id)

    const ended = await run(debt.id, 'forgiven', '--reason', 'first time', '--as', 'anna', '--json')
    expect(ended).toMatchObject({ exitCode: 0, errors: '' })
    expect(JSON.parse(ended.output)).toMatchObject({ outcome: 'forgiven', operator: 'anna', reason: 'first time' })
    expect((await run('show', debt.id)).output).toMatch(/ended +anna ended this item at .*: forgiven \(first time\)/)
    expect((await run('--json')).output).not.toContain(debt.id)
  })

  it('exits with 1 for a resolution that is refused and for an item that does not exist', async () => {
    const { id } = await inReview(ledger)
    const refused = await run(id, 'forgiven', '--reason', 'x')
    expect(refused).toMatchObject({
      exitCode: 1,
      errors: expect.stringContaining('cannot be forgiven; it may be refunded'),
    })
    expect(await run(UNKNOWN, 'written_off', '--reason', 'x')).toMatchObject({
      exitCode: 1,
      errors: 'There is no such item.',
    })
    expect(await run('show', UNKNOWN)).toMatchObject({ exitCode: 1, errors: 'There is no such item.' })
  })
})
