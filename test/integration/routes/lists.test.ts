import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { createCatalog } from '#shared/catalog/catalog.ts'
import type { CommonTerms } from '#shared/catalog/common-terms.ts'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { modelListSchema } from '../../../api/schemas/models.ts'
import { pricingCatalogSchema } from '../../../api/schemas/pricing.ts'
import { voiceListSchema } from '../../../api/schemas/voices.ts'
import { composeLists } from './compose-app.ts'

const app = await composeLists()
const TEXT_ENDPOINTS = ['/v1/chat/completions', '/v1/messages']
const modelIds = publishedCatalog.models.map(({ id }) => id)

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
      output_per_million_tokens: '3.00',
      minimum_charge_usd: '0.002',
      maximum_charge_usd: '0.766952',
    })
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
    expect(await read('/v1/audio/voices', voiceListSchema, reduced)).toEqual({ object: 'list', defaults: {}, data: [] })
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
