import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createConfigurationStore } from '#shared/adapters/postgres/configuration/configuration-store.ts'
import { createPool, type Pool } from '#shared/adapters/postgres/pool.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { publishContent, readInForce } from '#shared/operators/review-configuration.ts'
import { main as verifyReceipt } from '../../../infra/commands/verify-receipt.ts'
import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { callCommand } from '../../support/processes/call-command.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const SPEECH = 'speechvendor/flash-v2.5'
const TRANSCRIPTION = 'speechvendor/scribe-v2'
const TEXT = 'textmodel-2.5-pro'

let sandbox: TestSandbox
let pool: Pool
let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-catalogs-'))
  // Two processes that start together with different files on one database.
  const files = Object.fromEntries(
    await Promise.all(
      ['api', 'api-2'].map(async (name, index) => {
        const file = join(directory, `${name}.json`)
        await writeFile(file, JSON.stringify({ models: { [TEXT]: { output_per_million_tokens: `1${index}.00` } } }))
        return [name, file]
      }),
    ),
  ) as Record<string, string>
  sandbox = await startTestSandbox({
    apis: 2,
    environmentOf: (name) => (files[name] === undefined ? {} : { CATALOG_FILE: files[name] }),
  })
  pool = createPool({
    connectionString: sandbox.info.databaseUrl,
    maximumConnections: 2,
    applicationName: 'farebox test',
    onError: () => undefined,
  })
})
afterAll(async () => {
  await pool.end()
  await sandbox.stop()
  await rm(directory, { recursive: true, force: true })
})

interface Quoted {
  readonly challenge: Response
  readonly amount: string
  /** Sends the same request again, with a payment, to one of the APIs. */
  readonly send: (headers: Readonly<Record<string, string>>, api?: number) => Promise<Response>
}

/** Asks for the price of a call. */
async function quote(path: string, body: Readonly<Record<string, unknown>>): Promise<Quoted> {
  const idempotencyKey = randomUUID()
  const send: Quoted['send'] = (headers, api = 0) =>
    fetch(`${sandbox.info.baseUrls[api]}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...headers },
      body: JSON.stringify(body),
    })
  const challenge = await send({})
  expect(challenge.status).toBe(402)
  const required = decodePaymentRequiredHeader(challenge.headers.get('payment-required') ?? '')
  return { challenge, amount: required.accepts[0]?.amount ?? '', send }
}

const versions = () =>
  Promise.all(
    sandbox.info.baseUrls.map(async (url) => {
      const list = (await (await fetch(`${url}/v1/pricing`)).json()) as { catalog_version: string }
      return list.catalog_version
    }),
  )

/** Publishes a catalog and waits until both APIs offer it. */
async function publish(content: JsonValue): Promise<void> {
  const store = createConfigurationStore(pool)
  const [before] = await versions()
  const published = await publishContent(
    store,
    { operator: 'ada', source: 'command' },
    { kind: 'catalog', content, reason: 'test', inForce: await readInForce(store) },
  )
  expect(published.outcome).toBe('published')
  await expect.poll(async () => (await versions()).includes(before ?? '')).toBe(false)
  expect(new Set(await versions()).size).toBe(1)
}

const requests = (sample: Buffer) =>
  [
    ['/v1/audio/speech', { model: SPEECH, input: 'The last tram leaves at midnight.' }],
    ['/v1/chat/completions', { model: TEXT, max_tokens: 900, messages: [{ role: 'user', content: 'Hello' }] }],
    ['/v1/messages', { model: TEXT, max_tokens: 900, messages: [{ role: 'user', content: 'Hello' }] }],
    ['/v1/audio/transcriptions', { model: TRANSCRIPTION, audio_base64: sample.toString('base64') }],
    ['/v1/images/generations', { model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram' }],
  ] as const

const WARNING = 'to publish it run npm run catalog -- import'
const logOf = (name: string) => readFile(join(sandbox.directory, 'logs', `${name}.log`), 'utf8')

const warnings = async () => (await Promise.all(['api', 'api-2'].map(logOf))).filter((log) => log.includes(WARNING))

it('processes that start with different files apply the same one, and the other process says that its file is not in force', async () => {
  expect(new Set(await versions()).size).toBe(1)
  await expect.poll(async () => (await warnings()).length).toBe(1)
  expect(await sandbox.sql(`SELECT operator FROM publications WHERE kind = 'catalog'`)).toEqual([
    { operator: 'import' },
  ])
})

it('calls that were quoted before a publication are accepted and charged under the catalog of their quote', async () => {
  const { rpcUrl, network } = sandbox.info
  const quoted = await Promise.all(
    requests(sandbox.sample).map(async ([path, body]) => {
      const one = await quote(path, body)
      // Each call has a payer of its own, since the permits of one are settled one after the other.
      const { privateKey } = await createPayer(rpcUrl, { usdcAtomic: 10_000_000n })
      const payer = createPayingClient({ privateKey, rpcUrl, network })
      return { path, ...one, payment: await payer.sign(one.challenge) }
    }),
  )
  const [before = ''] = await versions()
  await publish({
    models: {
      [SPEECH]: { default_voice: 'talia', price_per_thousand_characters_usd: '0.4', maximum_characters: 10 },
      [TEXT]: { enabled: false },
      [TRANSCRIPTION]: { maximum_audio_duration_ms: 1, price_per_audio_hour_usd: '0.12' },
      'textmodel-3.1-flash-lite-image': { enabled: false },
    },
  })
  const answers = await Promise.all(
    quoted.map(async ({ path, send, payment }, index) => {
      const answer = await send(payment, index % 2)
      return { path, answer, body: await answer.text() }
    }),
  )
  for (const { path, answer, body } of answers) {
    expect({ path, status: answer.status, body: answer.status === 200 ? '' : body }).toEqual({
      path,
      status: 200,
      body: '',
    })
    expect(answer.headers.get('x-catalog-version')).toBe(before)
    const [id, token] = [answer.headers.get('x-receipt-id') ?? '', answer.headers.get('x-receipt-token') ?? '']
    const verified = await callCommand(() =>
      verifyReceipt([
        '--url',
        sandbox.info.baseUrl,
        '--id',
        id,
        '--token',
        token,
        '--rpc',
        sandbox.info.rpcUrl,
        '--json',
      ]),
    )
    expect(verified.exitCode).toBe(0)
    const { checks } = JSON.parse(verified.output) as { checks: { check: string; outcome: string; detail: string }[] }
    expect(checks.find(({ check }) => check === 'prices')).toEqual({
      check: 'prices',
      outcome: 'passed',
      detail: `match the published prices (${before})`,
    })
  }
  // A repetition is the same call for good, also under another default voice.
  for (const { send, payment } of quoted) expect((await send(payment, 1)).status).toBe(200)
})

it('a process that starts again applies what is published', async () => {
  await publish({ models: { [TEXT]: { input_per_million_tokens: '1.11' } } })
  const [published] = await versions()
  process.kill(sandbox.pidOf('api'), 'SIGTERM')
  await sandbox.restart('api')
  expect(await versions()).toEqual([published, published])
})

it('no version that a quote named is unknown', async () => {
  const named = await sandbox.sql<{ version: string }>(
    `SELECT DISTINCT catalog_version AS version FROM idempotency_keys
     UNION SELECT catalog_version FROM jobs`,
  )
  expect(named.length).toBeGreaterThan(0)
  for (const { version } of named)
    for (const url of sandbox.info.baseUrls)
      expect({ version, status: (await fetch(`${url}/v1/catalogs/${version}`)).status }).toEqual({
        version,
        status: 200,
      })
})
