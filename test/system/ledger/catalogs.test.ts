import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { type ConfigurationStore, createConfigurationStore } from '#shared/ledger/configuration/configuration-store.ts'
import { createPool, type Pool } from '#shared/ledger/pool.ts'
import type { PublicationKind } from '#shared/operators/configuration.ts'
import { publishContent, readInForce } from '#shared/operators/review-configuration.ts'
import { buildApp } from '../../../api/app.ts'
import { readConfig } from '../../../api/config.ts'
import { createDependencies } from '../../../api/dependencies.ts'
import { sandboxDeployments } from '../../../infra/sandbox/deployments.ts'
import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import { MULTIPART_CONTENT_TYPE, multipartBody } from '../../support/http/multipart-body.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { priceDifferences, verifyAsAnyone } from '../../support/payer/verify-receipt.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const SPEECH = 'speechvendor/flash-v2.5'
const TRANSCRIPTION = 'speechvendor/scribe-v2'
const TEXT = 'textmodel-2.5-pro'
const AUTHOR = { operator: 'ada', source: 'console' } as const
const deployments = sandboxDeployments({
  upstreamUrl: 'http://127.0.0.1:9',
  apiKeyEnv: 'KEY',
  models: publishedCatalog.models,
  voices: publishedCatalog.voices.map(({ id }) => id),
})
const SIGNED = { 'payment-signature': 'e30=' }
const REACHED_PAYMENT = { status: 400, code: 'invalid_payment_header' }
interface Quoted {
  readonly challenge: Response
  readonly amount: string
  /** Sends the same request again, with a payment, to one of the APIs. */
  readonly send: (headers: Readonly<Record<string, string>>, api?: number) => Promise<Response>
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

describe('a catalog that changes while it serves', () => {
  let ledger: TestLedger
  let store: ConfigurationStore
  let directory: string
  let app: FastifyInstance
  let close: () => Promise<void>
  beforeAll(async () => {
    ledger = await createTestLedger()
    store = createConfigurationStore(ledger.pool)
    directory = await mkdtemp(join(tmpdir(), 'farebox-live-'))
    const file = join(directory, 'deployments.json')
    await writeFile(file, JSON.stringify(deployments))
    const config = readConfig({
      PUBLIC_BASE_URL: 'https://farebox.example',
      CONTACT_EMAIL: 'operator@farebox.example',
      DATABASE_URL: ledger.url,
      RPC_URL: 'http://127.0.0.1:9',
      PAY_TO: `0x${'1'.repeat(40)}`,
      FACILITATOR_ADDRESSES: `0x${'2'.repeat(40)}`,
      CHALLENGE_SECRET: 'c'.repeat(32),
      RECEIPT_SECRETS: `k1:${'r'.repeat(32)}`,
      RECEIPT_SIGNING_KEY: `k1:${'3'.repeat(64)}`,
      OBJECT_STORE_DIRECTORY: directory,
      DEPLOYMENTS_FILE: file,
      LOG_LEVEL: 'silent',
      PATH: process.env['PATH'],
    })
    const dependencies = await createDependencies(config, new AbortController().signal)
    app = await buildApp({ ...dependencies, draining: new AbortController().signal })
    close = async () => {
      await app.close()
      await dependencies.close()
    }
  })

  afterAll(async () => {
    await close()
    await ledger.close()
    await rm(directory, { recursive: true, force: true })
  })

  const read = async <Body>(url: string): Promise<Body> => (await app.inject(url)).json<Body>()
  const versionNow = async () => (await read<{ catalog_version: string }>('/v1/pricing')).catalog_version
  /** Publishes a content, and waits until this process applies it. */
  async function publish(kind: PublicationKind, content: JsonValue): Promise<void> {
    const inForce = await readInForce(store)
    const before = await versionNow()
    const published = await publishContent(store, AUTHOR, { kind, content, reason: 'test', inForce })
    if (published.outcome !== 'published') throw new Error(JSON.stringify(published))
    await expect.poll(versionNow).not.toBe(before)
  }
  const publishCatalog = (models: JsonValue) => publish('catalog', { models })
  async function drain(name: string, isDrained: boolean): Promise<void> {
    const before = await versionNow()
    await ledger.sql(
      `WITH raised AS (UPDATE configuration_revision SET revision = revision + 1)
     INSERT INTO controls (kind, subject, is_stopped, operator, reason) VALUES ('deployment', $1, $2, 'ada', 'test')
     ON CONFLICT (kind, subject) DO UPDATE SET is_stopped = EXCLUDED.is_stopped`,
      [name, isDrained],
    )
    await expect.poll(versionNow).not.toBe(before)
  }
  /** Sends a request; a payment header that is not one is refused after the request was compared with its key's. */
  async function send(
    url: string,
    payload: object | Buffer,
    key: string,
    headers: Record<string, string> = {},
  ): Promise<{ status: number; price?: string; code?: string }> {
    const answer = await app.inject({ url, method: 'POST', payload, headers: { 'x-idempotency-key': key, ...headers } })
    const { error, price } = answer.json<{ error: { code: string }; price?: { amount: string } }>()
    return price ? { status: answer.statusCode, price: price.amount } : { status: answer.statusCode, code: error.code }
  }
  const speak = (key: string, headers = {}) =>
    send('/v1/audio/speech', { model: SPEECH, input: 'Mind the gap.' }, key, headers)
  const chat = (key: string, headers = {}) =>
    send(
      '/v1/chat/completions',
      { model: TEXT, max_tokens: 4000, messages: [{ role: 'user', content: 'Hello' }] },
      key,
      headers,
    )
  const transcribe = (key: string, mp3: Uint8Array, headers = {}) =>
    send(
      '/v1/audio/transcriptions',
      { model: TRANSCRIPTION, audio_base64: Buffer.from(mp3).toString('base64') },
      key,
      headers,
    )
  const transcribeForm = (key: string, mp3: Uint8Array, headers = {}) =>
    send(
      '/v1/audio/transcriptions',
      multipartBody([
        { name: 'model', value: TRANSCRIPTION },
        { name: 'file', value: mp3, fileName: 'a.mp3' },
      ]),
      key,
      { 'content-type': MULTIPART_CONTENT_TYPE, ...headers },
    )
  async function toolText(): Promise<string> {
    const payload = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
    const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' }
    return (await app.inject({ method: 'POST', url: '/mcp', payload, headers })).body
  }
  const askLarge = () =>
    send(
      '/v1/chat/completions',
      { model: 'textmodel-2.5-flash', max_tokens: 1, messages: [{ role: 'user', content: 'x'.repeat(400_000) }] },
      crypto.randomUUID(),
    )
  const idsOf = async () => (await read<{ data: { id: string }[] }>('/v1/models')).data.map(({ id }) => id)
  describe('a published catalog', () => {
    it('reaches every list and description without a restart', async () => {
      await publishCatalog({ [TEXT]: { maximum_charge_usd: '0.654321', input_per_million_tokens: '1.11' } })
      const version = await versionNow()
      const { data } = await read<{ data: { model: string }[] }>('/v1/pricing')
      expect(data.find(({ model }) => model === TEXT)).toMatchObject({ input_per_million_tokens: '1.11' })
      expect((await read<{ catalog_version: string }>('/v1/models')).catalog_version).toBe(version)
      await publishCatalog({
        [SPEECH]: { default_voice: 'talia', maximum_charge_usd: '0.321' },
        [TEXT]: { max_output_tokens: 777 },
      })
      expect(await read('/v1/audio/voices')).toMatchObject({ defaults: { [SPEECH]: 'talia' } })
      expect(await read(`/v1/models/${TEXT}`)).toMatchObject({ max_output_tokens: 777 })
      for (const path of ['/llms.txt', '/SKILL.md', '/.well-known/x402', '/openapi.json'])
        expect({ path, body: (await app.inject(path)).body }).toEqual({ path, body: expect.stringContaining('0.321') })
      expect((await app.inject('/')).body).toContain('0.321')
      expect(await toolText()).toContain('0.321')
      expect((await read<{ components: { schemas: object } }>('/openapi.json')).components.schemas).toMatchObject({
        CreateSpeechRequest: { properties: { voice: { default: 'talia' } } },
      })
      const probe = await app.inject({ method: 'POST', url: '/v1/audio/speech', payload: {} })
      expect(probe.json()).toMatchObject({ price: { amount: '0.321' } })
    })

    it('takes a model off all lists, and a request for it is refused before a price', async () => {
      await publishCatalog({ [TEXT]: { enabled: false } })
      const { data } = await read<{ data: { id: string }[] }>('/v1/models')
      expect(data.map(({ id }) => id)).not.toContain(TEXT)
      expect((await app.inject('/llms.txt')).body).not.toContain(TEXT)
      expect(await toolText()).not.toContain(`Models: ${TEXT}`)
      expect(await toolText()).not.toContain(`, ${TEXT}`)
      expect(await chat(crypto.randomUUID())).toEqual({ status: 503, code: 'model_unavailable' })
    })

    it('is what large bodies are priced with too, which are prepared on a thread', async () => {
      await publishCatalog({ 'textmodel-2.5-flash': { input_per_million_tokens: '0.30' } })
      const before = await askLarge()
      await publishCatalog({ 'textmodel-2.5-flash': { input_per_million_tokens: '0.60' } })
      const after = await askLarge()
      expect(before.status).toBe(402)
      expect(Number(after.price)).toBeCloseTo(2 * Number(before.price), 4)
    })
  })

  describe('a quote made before a publication', () => {
    const short = generateMp3({ durationMs: 1500, seed: 'live' })

    it('stays good when the default voice changes: the request is the same as when it was priced', async () => {
      await publishCatalog({ [SPEECH]: { default_voice: 'darian', price_per_thousand_characters_usd: '0.22' } })
      const key = crypto.randomUUID()
      const priced = await speak(key)
      await publishCatalog({ [SPEECH]: { default_voice: 'talia', price_per_thousand_characters_usd: '0.4' } })
      expect(await speak(key)).toEqual(priced)
      expect(await speak(key, SIGNED)).toEqual(REACHED_PAYMENT)
      const other = { model: SPEECH, input: 'Mind the gap.', voice: 'talia' }
      expect(await send('/v1/audio/speech', other, key)).toEqual({ status: 409, code: 'idempotency_key_reused' })
    })

    it.each([
      ['JSON', transcribe],
      ['a form', transcribeForm],
    ] as const)('stays good when the limit of recordings is narrowed: %s', async (_, request) => {
      await publishCatalog({ [TRANSCRIPTION]: { maximum_audio_duration_ms: 9000 + Math.round(Math.random() * 500) } })
      const key = crypto.randomUUID()
      expect(await request(key, short)).toMatchObject({ status: 402 })
      await publishCatalog({ [TRANSCRIPTION]: { maximum_audio_duration_ms: 1000, maximum_audio_bytes: 5000 } })
      expect(await request(key, short, SIGNED)).toEqual(REACHED_PAYMENT)
      const refused = { status: 400, code: expect.stringMatching(/^audio_too_(long|large)$/) }
      expect(await request(crypto.randomUUID(), short, SIGNED)).toEqual(refused)
    })

    it('stays good when its model is no longer offered', async () => {
      await publishCatalog({ [TEXT]: { input_per_million_tokens: '1.21' } })
      const key = crypto.randomUUID()
      const priced = await chat(key)
      await publishCatalog({ [TEXT]: { enabled: false } })
      expect(await chat(key)).toEqual(priced)
      expect(await chat(key, SIGNED)).toEqual(REACHED_PAYMENT)
    })

    it('keeps its price while another key gets the new one', async () => {
      await publishCatalog({ [TEXT]: { output_per_million_tokens: '9.00' } })
      const key = crypto.randomUUID()
      const priced = await chat(key)
      await publishCatalog({ [TEXT]: { output_per_million_tokens: '20.00' } })
      expect(await chat(key)).toEqual(priced)
      expect(Number((await chat(crypto.randomUUID())).price)).toBeGreaterThan(Number(priced.price))
    })
  })

  describe('a drained deployment', () => {
    it('takes what only it serves off the offer, and brings it back when it is enabled', async () => {
      await publishCatalog({ [TEXT]: { input_per_million_tokens: '1.22' } })
      const image = 'textmodel-3.1-flash-lite-image'
      await drain('gemini-3.1-flash-lite-image', true)
      expect(await idsOf()).not.toContain(image)
      await drain('gemini-3.1-flash-lite-image', false)
      expect(await idsOf()).toContain(image)
    })
  })

  describe('GET /v1/catalogs/{version}', () => {
    it('returns the prices, models and voices of an earlier version for good', async () => {
      await publishCatalog({ [SPEECH]: { default_voice: 'jade', price_per_thousand_characters_usd: '0.123' } })
      const version = await versionNow()
      const lists = {
        pricing: (await read<{ data: unknown }>('/v1/pricing')).data,
        models: (await read<{ data: unknown }>('/v1/models')).data,
        voices: (await read<{ data: unknown }>('/v1/audio/voices')).data,
      }
      const first = await app.inject(`/v1/catalogs/${version}`)
      expect(first.json()).toEqual({
        object: 'catalog',
        catalog_version: version,
        service_fee_basis_points: 0,
        promotion: publishedCatalog.common.promotion,
        ...lists,
      })
      expect(first.headers['cache-control']).toBe('public, max-age=31536000, immutable')
      await publishCatalog({})
      const later = await app.inject(`/v1/catalogs/${version}`)
      expect(later.body).toBe(first.body)
      const headers = { 'if-none-match': String(first.headers.etag) }
      expect((await app.inject({ url: `/v1/catalogs/${version}`, headers })).statusCode).toBe(304)
    })

    it('knows every version that a quote named', async () => {
      await publishCatalog({ [TEXT]: { input_per_million_tokens: '1.23' } })
      const payload = { operation: 'createSpeech', request: { model: SPEECH, input: 'x' } }
      const quote = (await app.inject({ method: 'POST', url: '/v1/quotes', payload })).json<{
        catalog_version: string
      }>()
      expect(await ledger.sql('SELECT version FROM catalogs WHERE version = $1', [quote.catalog_version])).toHaveLength(
        1,
      )
      expect((await app.inject(`/v1/catalogs/${quote.catalog_version}`)).statusCode).toBe(200)
    })

    it.each(['catalog-0000000000000000', 'catalog-', 'x', '%00', "catalog-' OR 1=1"])(
      'does not know the version %s',
      async (version) => {
        const answer = await app.inject(`/v1/catalogs/${encodeURIComponent(version)}`)
        expect({ status: answer.statusCode, code: answer.json<{ error: { code: string } }>().error.code }).toEqual({
          status: 404,
          code: 'not_found',
        })
      },
    )
  })
})

describe('catalogs that operators publish', () => {
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
      const receiptToken = answer.headers.get('x-receipt-token') ?? ''
      const verified = await verifyAsAnyone(sandbox.info, answer.headers.get('x-receipt-id') ?? '', { receiptToken })
      expect(verified).toMatchObject({ outcome: 'passed', receipt: { catalog_version: before } })
      expect(await priceDifferences(sandbox.info.baseUrl, verified.receipt)).toEqual([])
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
})
