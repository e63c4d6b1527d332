import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance, InjectOptions } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { buildApp } from '../../../api/app.ts'
import { readConfig } from '../../../api/config.ts'
import { createDependencies } from '../../../api/dependencies.ts'
import { sandboxDeployments } from '../../../infra/sandbox/deployments.ts'
import { MULTIPART_CONTENT_TYPE, multipartBody } from '../../support/http/multipart-body.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'

const SPEECH = 'speechvendor/flash-v2.5'
const TRANSCRIPTION = 'speechvendor/scribe-v2'
const IMAGE = 'textmodel-3.1-flash-lite-image'
const TEXT = 'textmodel-2.5-flash'

/** No deployment has this voice. */
const UNSERVED = 'bella'

const CATALOG = {
  models: {
    [SPEECH]: { default_voice: 'talia' },
    [TRANSCRIPTION]: { maximum_audio_duration_ms: 2000, maximum_audio_bytes: 50_000 },
    [IMAGE]: { enabled: false },
    [TEXT]: { context_window: 10_000 },
  },
  voices: { eldrin: { retirement_date: '2026-01-01' }, jade: { retirement_date: '2999-12-31' } },
}

let ledger: TestLedger
let directory: string
let app: FastifyInstance
let close: () => Promise<void>

const write = async (name: string, content: unknown) => {
  const path = join(directory, name)
  await writeFile(path, JSON.stringify(content))
  return path
}

const deploymentsOf = (voices: readonly string[]) =>
  sandboxDeployments({
    upstreamUrl: 'http://127.0.0.1:9',
    apiKeyEnv: 'KEY',
    models: publishedCatalog.models,
    voices,
  })
const aliases = publishedCatalog.voices.map(({ id }) => id)

async function configWith(catalog: unknown, voices: readonly string[]) {
  return readConfig({
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
    DEPLOYMENTS_FILE: await write('deployments.json', deploymentsOf(voices)),
    CATALOG_FILE: await write('catalog.json', catalog),
    LOG_LEVEL: 'silent',
    PATH: process.env['PATH'],
  })
}

beforeAll(async () => {
  ledger = await createTestLedger()
  directory = await mkdtemp(join(tmpdir(), 'farebox-catalog-'))
  const config = await configWith(
    CATALOG,
    aliases.filter((alias) => alias !== UNSERVED),
  )
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

/** Sends a request to a paid endpoint and returns its status and the code and field of its error. */
async function send(url: string, request: InjectOptions, key: string = crypto.randomUUID()) {
  const answer = await app.inject({
    url,
    method: 'POST',
    ...request,
    headers: { 'x-idempotency-key': key, ...request.headers },
  })
  const { error } = answer.json<{ error: { code: string; param: string } }>()
  return { status: answer.statusCode, ...(answer.statusCode === 402 ? {} : { code: error.code, param: error.param }) }
}
const speak = (fields: object, key?: string) =>
  send('/v1/audio/speech', { payload: { model: SPEECH, input: 'Mind the gap.', ...fields } }, key)
const transcribe = (mp3: Uint8Array) =>
  send('/v1/audio/transcriptions', {
    payload: { model: TRANSCRIPTION, audio_base64: Buffer.from(mp3).toString('base64') },
  })
const transcribeForm = (mp3: Uint8Array) =>
  send('/v1/audio/transcriptions', {
    headers: { 'content-type': MULTIPART_CONTENT_TYPE },
    payload: multipartBody([
      { name: 'model', value: TRANSCRIPTION },
      { name: 'file', value: mp3, fileName: 'a.mp3' },
    ]),
  })

const ask = (bytes: number) =>
  send('/v1/messages', {
    payload: { model: TEXT, max_tokens: 1, messages: [{ role: 'user', content: 'x'.repeat(bytes) }] },
  })

interface Voices {
  readonly defaults: Record<string, string>
  readonly data: readonly { readonly id: string; readonly retirement_date: string | null }[]
}

describe('the default voice of CATALOG_FILE', () => {
  it('the default voice of CATALOG_FILE is published by voices, pricing and the interface description [spec E55]', async () => {
    const { defaults } = await read<Voices>('/v1/audio/voices')
    expect(defaults).toEqual({ [SPEECH]: 'talia' })
    const { data } = await read<{ data: { model: string; default_voice?: string }[] }>('/v1/pricing')
    expect(data.find(({ model }) => model === SPEECH)).toMatchObject({ default_voice: 'talia' })
    const { components } = await read<{ components: { schemas: Record<string, unknown> } }>('/openapi.json')
    expect(components.schemas['CreateSpeechRequest']).toMatchObject({
      properties: { voice: { default: 'talia', enum: aliases } },
    })
  })

  it('a request without a voice is the same effective request as one with the default voice of CATALOG_FILE [spec E55]', async () => {
    const key = crypto.randomUUID()
    expect(await speak({}, key)).toEqual({ status: 402 })
    expect(await speak({ voice: 'talia' }, key)).toEqual({ status: 402 })
    expect(await speak({ voice: 'darian' }, key)).toMatchObject({ status: 409, code: 'idempotency_key_reused' })
  })
})

describe('voices that are not offered', () => {
  it('a voice without a deployment and a retired one are not listed [spec O40, V6]', async () => {
    const { data } = await read<Voices>('/v1/audio/voices')
    expect(data.map(({ id }) => id)).toEqual(aliases.filter((alias) => alias !== UNSERVED && alias !== 'eldrin'))
    expect(data.find(({ id }) => id === 'jade')?.retirement_date).toBe('2999-12-31')
  })

  it.each([UNSERVED, 'eldrin'])(
    'the voice %s, which is not offered, is refused before a price, by the endpoint and the quote [spec O40]',
    async (voice) => {
      const refused = { status: 400, code: 'invalid_field', param: 'voice' }
      expect(await speak({ voice })).toEqual(refused)
      const payload = { operation: 'createSpeech', request: { model: SPEECH, input: 'x', voice } }
      expect(await send('/v1/quotes', { payload })).toEqual(refused)
    },
  )

  it('the API does not start when no deployment has the default voice [spec O40]', async () => {
    const started = createDependencies(
      await configWith({ models: {} }, ['talia', 'jade']),
      new AbortController().signal,
    )
    await expect(started).rejects.toThrow(/DEPLOYMENTS_FILE.*default voice "darian".*set default_voice.*talia, jade/s)
  })
})

describe('the audio limits of CATALOG_FILE', () => {
  const short = generateMp3({ durationMs: 1500, seed: 'catalog' })
  const long = generateMp3({ durationMs: 2500, seed: 'catalog' })
  const large = generateMp3({ durationMs: 1500, seed: 'catalog', bitrate: 320 })

  it('the audio limits of CATALOG_FILE are the published ones', async () => {
    const { data } = await read<{ data: { id: string }[] }>('/v1/models')
    expect(data.find(({ id }) => id === TRANSCRIPTION)).toMatchObject({
      maximum_audio_duration_ms: '2000',
      maximum_audio_bytes: 50_000,
    })
  })

  it.each([
    ['JSON', transcribe, 'audio_base64'],
    ['a form', transcribeForm, 'file'],
  ] as const)('the audio limits of CATALOG_FILE are enforced in %s [spec O43]', async (_, request, param) => {
    expect(await request(short)).toEqual({ status: 402 })
    expect(await request(long)).toEqual({ status: 400, code: 'audio_too_long', param })
    expect(await request(large)).toEqual({ status: 400, code: 'audio_too_large', param })
  })
})

describe('models that CATALOG_FILE changes', () => {
  it('a disabled model is neither listed nor usable, and stays described', async () => {
    const { data } = await read<{ data: { id: string }[] }>('/v1/models')
    expect(data.map(({ id }) => id)).not.toContain(IMAGE)
    expect(await send('/v1/images/generations', { payload: { model: IMAGE, prompt: 'A tram' } })).toMatchObject({
      status: 503,
      code: 'model_unavailable',
    })
    const { paths } = await read<{ paths: Record<string, unknown> }>('/openapi.json')
    expect(paths['/v1/images/generations']).toMatchObject({
      post: { 'x-payment-info': { price: { mode: 'fixed', amount: '0.035' } } },
    })
  })

  it('a narrowed context window is published with the bytes of text that fit, which are accepted and no more', async () => {
    const { data } = await read<{ data: { id: string; max_input_bytes?: number }[] }>('/v1/models')
    const largest = data.find(({ id }) => id === TEXT)?.max_input_bytes ?? 0
    expect(largest).toBe(10_000 - 1 - 288)
    expect(await ask(largest)).toEqual({ status: 402 })
    expect(await ask(largest + 1)).toMatchObject({ status: 400, code: 'context_length_exceeded' })
  })
})
