import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance, InjectOptions } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { overrideCatalogWith } from '#shared/catalog/catalog-file.ts'
import { createCatalog } from '#shared/catalog/catalog.ts'
import type { CommonTerms } from '#shared/catalog/common-terms.ts'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { buildApp } from '../../../api/app.ts'
import { readConfig } from '../../../api/config.ts'
import { createDependencies } from '../../../api/dependencies.ts'
import { addCatalogRoutes } from '../../../api/routes/catalogs.ts'
import { addPricingRoutes, priceList } from '../../../api/routes/pricing.ts'
import { modelListSchema, pricingCatalogSchema, voiceListSchema } from '../../../api/schemas/catalogs.ts'
import { sandboxDeployments } from '../../../infra/sandbox/deployments.ts'
import { MULTIPART_CONTENT_TYPE, multipartBody } from '../../support/http/multipart-body.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { composeApp, composeLists, limitTo } from './compose-app.ts'

const TEXT_ENDPOINTS = ['/v1/chat/completions', '/v1/messages']
const modelIds = publishedCatalog.models.map(({ id }) => id)
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
const deploymentsOf = (voices: readonly string[]) =>
  sandboxDeployments({
    upstreamUrl: 'http://127.0.0.1:9',
    apiKeyEnv: 'KEY',
    models: publishedCatalog.models,
    voices,
  })
const aliases = publishedCatalog.voices.map(({ id }) => id)
interface Voices {
  readonly defaults: Record<string, string>
  readonly data: readonly { readonly id: string; readonly retirement_date: string | null }[]
}

describe('a voice with a retirement date', () => {
  it('a voice leaves the list after its retirement date while the process runs, and the ETag changes [spec V6]', async () => {
    const [first, ...others] = publishedCatalog.voices
    if (!first) throw new Error('there are no voices')
    const retiring = { ...first, retirementDate: '2027-01-31' }
    const catalog = createCatalog({ ...publishedCatalog, voices: [...others, retiring] })
    let now = new Date('2027-01-31T23:00:00Z')
    const dated = await composeLists(catalog, () => now)
    const before = await dated.inject('/v1/audio/voices')
    expect(voiceListSchema.parse(before.json()).data.at(-1)).toMatchObject({
      id: first.id,
      retirement_date: '2027-01-31',
    })
    now = new Date('2027-02-01T00:00:00Z')
    const after = await dated.inject('/v1/audio/voices')
    expect(voiceListSchema.parse(after.json()).data.map(({ id }) => id)).toEqual(others.map(({ id }) => id))
    expect(after.headers.etag).not.toBe(before.headers.etag)
  })
})

describe('lists of models, prices and voices', async () => {
  const app = await composeLists()
  async function read<Schema extends z.ZodType>(path: string, schema: Schema, from = app): Promise<z.infer<Schema>> {
    const answer = await from.inject(path)
    expect(answer.statusCode).toBe(200)
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
    return schema.parse(answer.json())
  }
  describe('GET /v1/models', async () => {
    const list = await read('/v1/models', modelListSchema)
    const limitsOf = (id: string) => list.data.find((model) => model.id === id)

    it('GET /v1/models is a list of one page with the catalog’s version [spec E76]', () => {
      expect(list).toMatchObject({ object: 'list', catalog_version: publishedCatalog.version, has_more: false })
      expect([list.first_id, list.last_id]).toEqual([modelIds.at(0), modelIds.at(-1)])
    })

    it('GET /v1/models has the four categories with every specified field', () => {
      expect(list.categories.map(({ id }) => id)).toEqual([
        'text_generation',
        'image_generation',
        'text_to_speech',
        'speech_to_text',
      ])
      expect(list.categories[0]).toEqual({
        id: 'text_generation',
        object: 'model_category',
        label: expect.stringMatching(/./),
        description: expect.stringMatching(/./),
        status: 'available',
        endpoints: [
          { method: 'POST', path: '/v1/chat/completions', compatibility: 'chat_completions' },
          { method: 'POST', path: '/v1/messages', compatibility: 'messages' },
        ],
        model_ids: modelIds.slice(0, 7),
      })
      expect(list.categories.flatMap(({ model_ids }) => model_ids)).toEqual(modelIds)
    })

    it.each([
      ['textmodel-3.6-flash', 'text_generation', ['text', 'image'], ['text'], TEXT_ENDPOINTS],
      ['textmodel-3.1-flash-lite-image', 'image_generation', ['text'], ['image'], ['/v1/images/generations']],
      ['speechvendor/flash-v2.5', 'text_to_speech', ['text'], ['audio'], ['/v1/audio/speech']],
      ['speechvendor/scribe-v2', 'speech_to_text', ['audio'], ['text'], ['/v1/audio/transcriptions']],
    ])(
      'GET /v1/models lists %s with the specified fields, created and owned_by',
      (id, category, input, output, endpoints) => {
        expect(list.data.find((model) => model.id === id)).toMatchObject({
          id,
          object: 'model',
          created: expect.any(Number),
          owned_by: 'farebox',
          category,
          input_modalities: input,
          output_modalities: output,
          supported_endpoints: endpoints,
        })
      },
    )

    it('GET /v1/models publishes the limits of each category [spec E44]', () => {
      for (const model of list.data.slice(0, 7)) {
        expect(model.context_window).toBe(1_048_576)
        // A byte counts as a token; the price bound leaves the most expensive model less room.
        expect(model.max_input_bytes).toBe(model.id === 'textmodel-2.5-pro' ? 613_265 : 1_048_287)
        expect(model.max_output_tokens).toBeLessThanOrEqual(65_536)
      }
      expect(limitsOf('textmodel-3.1-flash-lite-image')).toMatchObject({
        supported_image_sizes: ['1K'],
        supported_aspect_ratios: ['1:1'],
      })
      expect(limitsOf('speechvendor/flash-v2.5')).toMatchObject({ maximum_characters: 2000, response_formats: ['mp3'] })
      expect(limitsOf('speechvendor/scribe-v2')).toMatchObject({
        minimum_audio_duration_ms: '100',
        maximum_audio_duration_ms: '3600000',
        maximum_audio_bytes: 26_214_400,
        accepted_formats: ['mp3'],
      })
    })
  })

  describe('GET /v1/pricing', async () => {
    const pricing = await read('/v1/pricing', pricingCatalogSchema)

    it('GET /v1/pricing is a pricing catalog of the same version, without a service fee [spec S7, E78, B23]', () => {
      expect(pricing).toMatchObject({
        object: 'pricing_catalog',
        catalog_version: publishedCatalog.version,
        service_fee_basis_points: 0,
        promotion: expect.stringMatching(/./),
      })
    })

    it('GET /v1/pricing has the expected gas where the minimum charge follows it, until the next block, and prices alone while the node is away', async () => {
      let isAway = false
      const following = await composeApp((composed) =>
        addPricingRoutes(composed, {
          catalog: () => publishedCatalog,
          readChargeGas: () =>
            isAway ? Promise.reject(new AppError('payment_network_unavailable')) : Promise.resolve(atomicAmount(3492n)),
        }),
      )
      const answer = await following.inject('/v1/pricing')
      expect(answer.headers['cache-control']).toBe('public, max-age=2')
      const { data } = pricingCatalogSchema.parse(answer.json())
      const byMinimum = data.map((entry) => [entry.minimum_charge_usd, entry.gas_minimum_charge_usd].join(' '))
      expect(new Set(byMinimum)).toEqual(new Set(['0.002 0.003492', '0.035 0.003492', '0.005034 0.003492']))
      isAway = true
      const away = await following.inject('/v1/pricing')
      expect([away.statusCode, away.headers['cache-control']]).toEqual([200, 'no-store'])
      expect(away.json()).toEqual(pricing)
    })

    it('GET /v1/pricing has one entry for each model', () => {
      expect(pricing.data.map(({ model }) => model)).toEqual(modelIds)
      for (const entry of pricing.data) expect(entry.currency).toBe('USD')
    })

    it('GET /v1/pricing has the price fields of each billing mode, and none of another [spec R5]', () => {
      expect(pricing.data[0]).toEqual({
        model: 'textmodel-3.6-flash',
        category: 'text_generation',
        currency: 'USD',
        billing_mode: 'measured_tokens',
        input_per_million_tokens: '0.50',
        cached_input_per_million_tokens: '0.15',
        output_per_million_tokens: '3.00',
        minimum_charge_usd: '0.002',
        maximum_charge_usd: '0.766952',
      })
      const cached = { cached_input_per_million_tokens: '0.05', cache_write_per_million_tokens: '0.625' }
      const override = { models: { 'textmodel-3.6-flash': cached } }
      expect(priceList(overrideCatalogWith(publishedCatalog, override)).data[0]).toMatchObject(cached)
      expect(pricing.data.slice(7)).toEqual([
        {
          model: 'textmodel-3.1-flash-lite-image',
          category: 'image_generation',
          currency: 'USD',
          billing_mode: 'per_image_specification',
          size: '1K',
          aspect_ratio: '1:1',
          supported_image_sizes: ['1K'],
          supported_aspect_ratios: ['1:1'],
          price_per_successful_image_usd: '0.035',
          response_formats: ['url', 'b64_json'],
          default_response_format: 'url',
          url_retention_hours: 168,
          minimum_charge_usd: '0.035',
          maximum_charge_usd: '0.035',
        },
        {
          model: 'speechvendor/flash-v2.5',
          category: 'text_to_speech',
          currency: 'USD',
          billing_mode: 'measured_characters',
          price_per_thousand_characters_usd: '0.2205',
          maximum_characters: 2000,
          response_formats: ['mp3'],
          default_response_format: 'mp3',
          default_voice: 'darian',
          url_retention_hours: 24,
          minimum_charge_usd: '0.002',
          maximum_charge_usd: '0.441',
        },
        {
          model: 'speechvendor/scribe-v2',
          category: 'speech_to_text',
          currency: 'USD',
          billing_mode: 'measured_audio_duration',
          price_per_audio_hour_usd: '0.122',
          minimum_audio_duration_ms: '100',
          maximum_audio_duration_ms: '3600000',
          maximum_audio_bytes: 26_214_400,
          accepted_formats: ['mp3'],
          minimum_charge_usd: '0.005034',
          maximum_charge_usd: '0.122',
        },
      ])
    })
  })

  describe('GET /v1/audio/voices', async () => {
    const voices = await read('/v1/audio/voices', voiceListSchema)

    it('GET /v1/audio/voices has the 20 voices with the specified fields and no others', () => {
      expect(Object.keys(voices)).toEqual(['object', 'defaults', 'data'])
      expect(voices.data).toHaveLength(20)
      expect(voices.data[0]).toEqual({
        id: 'darian',
        name: 'Darian',
        description: expect.stringMatching(/./),
        provider: 'speechvendor',
        languages: expect.arrayContaining(['en']),
        models: ['speechvendor/flash-v2.5'],
        default_for_models: ['speechvendor/flash-v2.5'],
        retirement_date: null,
      })
    })

    it('GET /v1/audio/voices has one default, which is a voice of the list', () => {
      expect(voices.defaults).toEqual({ 'speechvendor/flash-v2.5': 'darian' })
      expect(voices.data.filter((voice) => voice.default_for_models.length > 0)).toHaveLength(1)
    })
  })

  describe('unavailable models', async () => {
    const reduced = await composeLists(availableCatalog(publishedCatalog, new Map([['textmodel-2.5-pro', 'all']])))

    it('the models list omits unavailable models and their categories', async () => {
      const list = await read('/v1/models', modelListSchema, reduced)
      expect(list.categories.map(({ id, model_ids }) => [id, model_ids])).toEqual([
        ['text_generation', ['textmodel-2.5-pro']],
      ])
      expect(list.data.map(({ id }) => id)).toEqual(['textmodel-2.5-pro'])
      expect(list.catalog_version).not.toBe(publishedCatalog.version)
    })

    it('the pricing list omits unavailable models', async () => {
      const { data } = await read('/v1/pricing', pricingCatalogSchema, reduced)
      expect(data.map(({ model }) => model)).toEqual(['textmodel-2.5-pro'])
    })

    it('the voices list omits voices of unavailable models', async () => {
      expect(await read('/v1/audio/voices', voiceListSchema, reduced)).toEqual({
        object: 'list',
        defaults: {},
        data: [],
      })
    })

    it('the models list of an empty catalog has no categories, models or ids', async () => {
      const empty = await composeLists(availableCatalog(publishedCatalog, new Map()))
      expect(await read('/v1/models', modelListSchema, empty)).toMatchObject({
        categories: [],
        data: [],
        first_id: null,
        last_id: null,
      })
    })
  })

  describe('what all models have in common', () => {
    const { common } = publishedCatalog
    const [category, ...otherCategories] = common.categories
    if (!category) throw new Error('there are no categories')
    const inCategory = (changes: Partial<typeof category>) => ({
      categories: [{ ...category, ...changes }, ...otherCategories],
    })
    const lists = ['/v1/models', '/v1/pricing', '/v1/audio/voices'] as const

    it.each<[string, Partial<Record<keyof CommonTerms, unknown>>, (typeof lists)[number]]>([
      ['the promotion', { promotion: null }, '/v1/pricing'],
      ['the service fee', { serviceFeeBasisPoints: 100 }, '/v1/pricing'],
      ['the lifetime of image URLs', { images: { ...common.images, urlRetentionHours: 24 } }, '/v1/pricing'],
      ['the lifetime of speech URLs', { speech: { ...common.speech, urlRetentionHours: 48 } }, '/v1/pricing'],
      ['the sizes of images', { images: { ...common.images, sizes: ['2K'] } }, '/v1/models'],
      ['the formats of speech', { speech: { ...common.speech, responseFormats: ['wav'] } }, '/v1/models'],
      ['the description of a category', inCategory({ description: 'Other words.' }), '/v1/models'],
      ['the billing mode of a category', inCategory({ billingMode: 'measured_characters' }), '/v1/pricing'],
      ['the owner of models', { owner: 'other' }, '/v1/models'],
      ['the provider of voices', { voiceProvider: 'othervendor' }, '/v1/audio/voices'],
    ])('the catalog version changes with %s, which a list publishes [spec V3c]', async (_, changes, path) => {
      const catalog = createCatalog({ ...publishedCatalog, common: { ...common, ...changes } as CommonTerms })
      expect((await (await composeLists(catalog)).inject(path)).body).not.toBe((await app.inject(path)).body)
      expect(catalog.version).not.toBe(publishedCatalog.version)
    })
  })

  describe.each(['/v1/models', '/v1/pricing', '/v1/audio/voices'])('caching of %s', (url) => {
    it('a list has a strong ETag that changes with its content', async () => {
      const { headers } = await app.inject(url)
      expect(headers.etag).toMatch(/^"[0-9a-f]{32}"$/)
      expect(headers['cache-control']).toBe('public, max-age=300')
      const reduced = await composeLists(availableCatalog(publishedCatalog, new Map()))
      expect((await reduced.inject(url)).headers.etag).not.toBe(headers.etag)
    })

    it.each([(tag: string) => tag, (tag: string) => `W/${tag}`, (tag: string) => `"other", ${tag}`, () => '*'])(
      'a list answers 304 without a body to a matching If-None-Match (%#)',
      async (form) => {
        const etag = String((await app.inject(url)).headers.etag)
        const answer = await app.inject({ url, headers: { 'if-none-match': form(etag) } })
        expect({ status: answer.statusCode, body: answer.body, etag: answer.headers.etag }).toEqual({
          status: 304,
          body: '',
          etag,
        })
      },
    )

    it('a list answers 200 to another If-None-Match', async () => {
      expect((await app.inject({ url, headers: { 'if-none-match': '"other"' } })).statusCode).toBe(200)
    })

    it('a list answers HEAD with the headers of GET and no body', async () => {
      const [get, head] = await Promise.all([app.inject(url), app.inject({ url, method: 'HEAD' })])
      expect({ status: head.statusCode, body: head.body }).toEqual({ status: 200, body: '' })
      for (const name of ['etag', 'content-type', 'content-length', 'cache-control'])
        expect([name, head.headers[name]]).toEqual([name, get.headers[name]])
    })

    it('a list needs no payment, key or parameter [spec E77]', async () => {
      const answer = await app.inject({ url: `${url}?anything=1`, headers: { authorization: 'Bearer dummy' } })
      expect(answer.statusCode).toBe(200)
      expect(answer.headers['payment-required']).toBeUndefined()
    })
  })
})

describe('catalogs by version', () => {
  it('GET /v1/catalogs/{version} answers 429 to an address that asks for too many versions', async () => {
    const catalogs = {
      find: async (version: string) => (version === publishedCatalog.version ? publishedCatalog : null),
    }
    const app = await composeApp((composed) => addCatalogRoutes(composed, { catalogs, limitRate: limitTo(2) }))
    const versions = [publishedCatalog.version, 'catalog-0123456789abcdef', 'catalog-fedcba9876543210']
    const answers = []
    for (const version of versions) answers.push(await app.inject(`/v1/catalogs/${version}`))
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 404, 429])
    expect(answers[2]?.json()).toMatchObject({
      error: { code: 'rate_limited', payment: 'none', retry: 'same_request' },
    })
  })
})

describe('a catalog file of the operator', () => {
  let ledger: TestLedger
  let directory: string
  let app: FastifyInstance
  let close: () => Promise<void>
  const write = async (name: string, content: unknown) => {
    const path = join(directory, name)
    await writeFile(path, JSON.stringify(content))
    return path
  }
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
})
