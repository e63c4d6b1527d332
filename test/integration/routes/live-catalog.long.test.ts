import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createConfigurationStore } from '#shared/adapters/postgres/configuration/configuration-store.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { PublicationKind } from '#shared/operators/configuration.ts'
import type { ConfigurationStore } from '#shared/operators/configuration-store.ts'
import { publishContent, readInForce } from '#shared/operators/review-configuration.ts'
import { buildApp } from '../../../api/app.ts'
import { readConfig } from '../../../api/config.ts'
import { createDependencies } from '../../../api/dependencies.ts'
import { sandboxDeployments } from '../../../infra/sandbox/deployments.ts'
import { MULTIPART_CONTENT_TYPE, multipartBody } from '../../support/http/multipart-body.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'

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
     INSERT INTO deployment_controls (deployment, is_drained, operator) VALUES ($1, $2, 'ada')
     ON CONFLICT (deployment) DO UPDATE SET is_drained = EXCLUDED.is_drained`,
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
const SIGNED = { 'payment-signature': 'e30=' }
const REACHED_PAYMENT = { status: 400, code: 'invalid_payment_header' }

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
    const quote = (await app.inject({ method: 'POST', url: '/v1/quotes', payload })).json<{ catalog_version: string }>()
    expect(await ledger.sql('SELECT version FROM catalogs WHERE version = $1', [quote.catalog_version])).toHaveLength(1)
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
