import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { runConfigurationCommand } from '../../../infra/configuration/run-command.ts'
import { sandboxDeployments } from '../../../infra/sandbox/deployments.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { callCommand } from '../../support/processes/call-command.ts'

const TRANSCRIPTION = 'speechvendor/scribe-v2'

let ledger: TestLedger
let directory: string
beforeAll(async () => {
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
afterAll(async () => {
  await ledger.close()
  await rm(directory, { recursive: true, force: true })
})

const run = (kind: 'catalog' | 'deployments', ...words: readonly string[]) =>
  callCommand(() => runConfigurationCommand(kind, [...words, '--as', 'ada'], { DATABASE_URL: ledger.url }))
const catalog = (...words: readonly string[]) => run('catalog', ...words)

async function write(content: unknown): Promise<string> {
  const path = join(directory, `${crypto.randomUUID()}.json`)
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}
const catalogFile = (price: string) => write({ models: { [TRANSCRIPTION]: { price_per_audio_hour_usd: price } } })

const others = (...words: readonly string[]) =>
  callCommand(() => runConfigurationCommand('catalog', [...words, '--as', 'grace'], { DATABASE_URL: ledger.url }))

describe('npm run catalog', () => {
  it('a draft is saved, reviewed, published and listed', async () => {
    await jobInState(ledger, 'completed')
    expect(await catalog('draft', await catalogFile('0.119'))).toMatchObject({
      exitCode: 0,
      output: 'The draft is saved.\n',
    })
    expect((await catalog('validate')).output).toBe('The content is valid.\n')
    const { output } = await catalog('diff')
    expect(output).toContain(`model ${TRANSCRIPTION}, price per audio hour usd: 0.122 → 0.119`)
    expect(output).toMatch(/all +1 calls, charged 0.005034 → 0.005034 USDC/)
    expect((await catalog('publish', '--reason', 'cheaper hours')).output).toMatch(/^Published as catalog \d+/)
    expect((await catalog('history')).output).toMatch(/ada {2}cheaper hours$/m)
    expect((await catalog('show')).output).toContain('"price_per_audio_hour_usd": "0.119"')
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
    [[], 'the command must be one of'],
    [['remove'], 'the command must be one of'],
    [['import'], 'import needs a FILE'],
    [['publish'], 'publish needs --reason'],
    [['publish', '--reason', ' '], 'publish needs --reason'],
    [['history', 'more'], 'history takes no argument'],
    [['show', '1', '2'], 'one argument too many'],
    [['show', '-1'], 'Unknown option'],
    [['show', 'one'], '"one" is not a number'],
    [['draft', '/nowhere/catalog.json'], 'cannot be read'],
    [['show', '--as', 'Ada Lovelace'], '--as must be a name'],
  ])('%j is a wrong argument', async (words, message) => {
    const { exitCode, errors } = await callCommand(() =>
      runConfigurationCommand('catalog', words, { DATABASE_URL: ledger.url }),
    )
    expect({ exitCode, errors }).toEqual({ exitCode: 2, errors: expect.stringContaining(message) })
    expect(errors).toContain('Usage: npm run catalog')
  })

  it('a database that cannot be reached is said in one line', async () => {
    const environment = { DATABASE_URL: 'postgres://127.0.0.1:9/none' }
    const { exitCode, errors } = await callCommand(() => runConfigurationCommand('catalog', ['show'], environment))
    expect({ exitCode, lines: errors.trimEnd().split('\n').length }).toEqual({ exitCode: 2, lines: 1 })
  })

  it('prints its help', async () => {
    expect((await callCommand(() => runConfigurationCommand('catalog', ['--help'], {}))).output).toContain('Usage:')
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
