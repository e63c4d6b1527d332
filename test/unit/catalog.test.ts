import { describe, expect, it } from 'vitest'
import { overrideCatalog } from '#shared/catalog/catalog-file.ts'
import { createCatalog, findModel, type Model, withoutRetiredVoices } from '#shared/catalog/catalog.ts'
import { highestPrice, priceBounds } from '#shared/catalog/price-bounds.ts'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { atomicRoundedUp, priceOf, unitPrice } from '#shared/money/unit-price.ts'

const MILLION = 1_000_000n
const override = (models: Record<string, unknown>) => overrideCatalog(publishedCatalog, JSON.stringify({ models }))
const TEXT = 'textmodel-3.6-flash'
const IMAGE = 'textmodel-3.1-flash-lite-image'
const SPEECH = 'speechvendor/flash-v2.5'
const TRANSCRIPTION = 'speechvendor/scribe-v2'

const speechWith = (voices: readonly string[] | 'all') =>
  availableCatalog(
    publishedCatalog,
    new Map([['speechvendor/flash-v2.5', voices === 'all' ? voices : new Set(voices)]]),
  )

describe('the catalog as published', () => {
  const { models, voices } = publishedCatalog
  const idsOf = (category: Model['category']) =>
    models.filter((model) => model.category === category).map(({ id }) => id)
  const textModels = models.filter((model) => model.category === 'text_generation')
  function textPrice(model: (typeof textModels)[number], inputTokens: bigint, outputTokens: bigint): bigint {
    const input = atomicRoundedUp(priceOf(unitPrice(model.inputPerMillionTokensUsd, MILLION), inputTokens))
    return input + atomicRoundedUp(priceOf(unitPrice(model.outputPerMillionTokensUsd, MILLION), outputTokens))
  }
  describe('the published catalog', () => {
    it('lists exactly the specified models, in the specified order [spec R3]', () => {
      expect(idsOf('text_generation')).toEqual([
        'textmodel-3.6-flash',
        'textmodel-3.5-flash-lite',
        'textmodel-3.5-flash',
        'textmodel-3.1-flash-lite',
        'textmodel-2.5-flash',
        'textmodel-2.5-pro',
        'textmodel-2.5-flash-lite',
      ])
      expect(idsOf('image_generation')).toEqual(['textmodel-3.1-flash-lite-image'])
      expect(idsOf('text_to_speech')).toEqual(['speechvendor/flash-v2.5'])
      expect(idsOf('speech_to_text')).toEqual(['speechvendor/scribe-v2'])
    })

    it.each([
      ['text_generation', '0.002', '0.766952'],
      ['image_generation', '0.035', '0.035'],
      ['text_to_speech', '0.002', '0.441'],
      ['speech_to_text', '0.005034', '0.122'],
    ] as const)('bounds a call of %s by %s and %s', (category, minimumChargeUsd, maximumChargeUsd) => {
      expect(priceBounds(publishedCatalog, category)).toEqual({ minimumChargeUsd, maximumChargeUsd })
    })

    it('prices images, speech and transcriptions as specified [spec B22]', () => {
      expect(models.slice(-3)).toMatchObject([
        { pricePerImageUsd: '0.035' },
        { pricePerThousandCharactersUsd: '0.2205', maximumCharacters: 2000, defaultVoice: 'darian' },
        { pricePerAudioHourUsd: '0.122', maximumAudioDurationMs: 3_600_000, maximumAudioBytes: 26_214_400 },
      ])
    })

    it.each(textModels)('$id has limits within the specification and a valid date', (model) => {
      expect(model.maximumOutputTokens).toBeLessThanOrEqual(65_536)
      expect(model.contextWindow).toBeGreaterThan(model.maximumOutputTokens)
      expect(new Date(model.created * 1000).getUTCFullYear()).toBeGreaterThan(2020)
    })

    it.each(textModels.filter(({ id }) => !id.endsWith('-pro')))(
      'a short request to $id with the default output ceiling costs the minimum',
      (model) => {
        expect(textPrice(model, 200n, 512n)).toBeLessThanOrEqual(atomicFromDollars(model.minimumChargeUsd))
      },
    )

    it('the largest allowed request of one text model reaches the maximum exactly', () => {
      const reaches = textModels.some((model) => {
        const output = BigInt(model.maximumOutputTokens)
        const room = atomicFromDollars(model.maximumChargeUsd) - textPrice(model, 0n, output)
        const inputTokens = (room * MILLION) / atomicFromDollars(model.inputPerMillionTokensUsd)
        const fits = inputTokens + output <= BigInt(model.contextWindow)
        return fits && textPrice(model, inputTokens, output) === atomicFromDollars(model.maximumChargeUsd)
      })
      expect(reaches).toBe(true)
    })

    it('lists the 20 voices, each with a description [spec R8]', () => {
      expect(voices.map(({ id }) => id).join(' ')).toBe(
        'darian talia elara baxter eldrin kellan elowen kaelen lawrence alicia maisie warren jade eddie caleb sawyer finley florence wyatt bella',
      )
      for (const { name, description, languages } of voices) {
        expect(name).not.toBe('')
        expect(description).not.toBe('')
        expect(languages).toContain('en')
      }
      expect(new Set(voices.map(({ description }) => description)).size).toBe(20)
    })
  })

  describe('the catalog version', () => {
    it('the catalog version is the same for the same content', () => {
      expect(createCatalog({ models, voices }).version).toBe(publishedCatalog.version)
    })

    it('the catalog version changes with any price, limit or voice and with availability [spec V3c]', () => {
      const [first, ...others] = models
      const [voice, ...otherVoices] = voices
      if (!first || !voice) throw new Error('the catalog is empty')
      const versions = [
        publishedCatalog,
        createCatalog({ models: [{ ...first, maximumChargeUsd: '0.7' }, ...others], voices }),
        createCatalog({ models, voices: [{ ...voice, retirementDate: '2027-01-01' }, ...otherVoices] }),
        availableCatalog(publishedCatalog, new Map([[first.id, 'all']])),
      ].map(({ version }) => version)
      expect(new Set(versions).size).toBe(4)
    })
  })

  describe('availableCatalog', () => {
    it('keeps the models with a deployment, in their order', () => {
      const served = ['speechvendor/scribe-v2', 'textmodel-2.5-pro', 'else'].map((id) => [id, 'all'] as const)
      const available = availableCatalog(publishedCatalog, new Map(served))
      expect(available.models.map(({ id }) => id)).toEqual(['textmodel-2.5-pro', 'speechvendor/scribe-v2'])
    })

    it('a category without available models has no price bounds', () => {
      const available = availableCatalog(publishedCatalog, new Map([['textmodel-2.5-pro', 'all']]))
      expect(priceBounds(available, 'image_generation')).toBeUndefined()
      expect(priceBounds(available, 'text_generation')).toBeDefined()
    })

    it('has the highest price of one call over the models that are offered', () => {
      const available = availableCatalog(publishedCatalog, new Map([['speechvendor/scribe-v2', 'all']]))
      expect([highestPrice(publishedCatalog), highestPrice(available)]).toEqual([766_952n, 122_000n])
    })

    it('keeps the voices that a deployment has, in their order', () => {
      expect(speechWith(['bella', 'alloy', 'darian']).voices.map(({ id }) => id)).toEqual(['darian', 'bella'])
      expect(speechWith('all').voices).toHaveLength(20)
      expect(speechWith('all').version).not.toBe(speechWith(['darian']).version)
    })

    it('refuses to start without a deployment of the default voice, and says what to do', () => {
      expect(() => speechWith(['talia', 'jade'])).toThrow(
        'no deployment of "speechvendor/flash-v2.5" has its default voice "darian": add the voice to "voices" of a deployment, or set default_voice of the model in CATALOG_FILE to talia, jade',
      )
      expect(() => speechWith([])).toThrow('a voice that a deployment has')
    })
  })

  describe('withoutRetiredVoices', () => {
    const [first, ...others] = voices
    const retiring = createCatalog({
      models,
      voices: first ? [{ ...first, retirementDate: '2027-01-31' }, ...others] : [],
    })

    it.each([
      ['2027-01-31T23:59:59.999Z', 20],
      ['2027-02-01T00:00:00Z', 19],
    ])('offers a voice until the end of its retirement date, in UTC: at %s there are %i', (time, count) => {
      const offered = withoutRetiredVoices(retiring, new Date(time))
      expect(offered.voices).toHaveLength(count)
      expect(offered.version).toBe(retiring.version)
    })
  })
})

const overrideVoices = (overrides: Record<string, unknown>, models: Record<string, unknown> = {}) =>
  overrideCatalog(publishedCatalog, JSON.stringify({ models, voices: overrides }))

describe('an operator’s catalog file', () => {
  it('an empty catalog file changes nothing', () => {
    expect(override({})).toEqual(publishedCatalog)
    expect(override({ [TEXT]: {} }).version).toBe(publishedCatalog.version)
  })

  it('removes a disabled model', () => {
    const catalog = override({ [IMAGE]: { enabled: false } })
    expect(catalog.models).toHaveLength(9)
    expect(findModel(catalog, 'image_generation', IMAGE)).toBeUndefined()
    expect(catalog.version).not.toBe(publishedCatalog.version)
  })

  it('overrides prices and narrows limits in every category', () => {
    const catalog = override({
      [TEXT]: {
        enabled: true,
        input_per_million_tokens: '0.45',
        cached_input_per_million_tokens: '0.045',
        cache_write_per_million_tokens: '0.5625',
        output_per_million_tokens: '2',
        context_window: 100_000,
        max_output_tokens: 8192,
        maximum_charge_usd: '0.5',
      },
      [IMAGE]: { price_per_successful_image_usd: '0.035' },
      [SPEECH]: { price_per_thousand_characters_usd: '0.2', maximum_characters: 1000, default_voice: 'jade' },
      [TRANSCRIPTION]: {
        price_per_audio_hour_usd: '0.1',
        maximum_audio_duration_ms: 60_000,
        maximum_audio_bytes: 1_000_000,
        minimum_charge_usd: '0.006',
      },
    })
    expect(findModel(catalog, 'text_generation', TEXT)).toMatchObject({
      inputPerMillionTokensUsd: '0.45',
      cachedInputPerMillionTokensUsd: '0.045',
      cacheWritePerMillionTokensUsd: '0.5625',
      outputPerMillionTokensUsd: '2',
      contextWindow: 100_000,
      maximumOutputTokens: 8192,
      minimumChargeUsd: '0.002',
      maximumChargeUsd: '0.5',
    })
    expect(findModel(catalog, 'text_to_speech', SPEECH)).toMatchObject({
      pricePerThousandCharactersUsd: '0.2',
      maximumCharacters: 1000,
      defaultVoice: 'jade',
    })
    expect(findModel(catalog, 'speech_to_text', TRANSCRIPTION)).toMatchObject({
      pricePerAudioHourUsd: '0.1',
      maximumAudioDurationMs: 60_000,
      maximumAudioBytes: 1_000_000,
      minimumChargeUsd: '0.006',
    })
    expect(catalog.models).toHaveLength(10)
  })

  it.each([
    ['stays under a dearer input', { input_per_million_tokens: '1.60' }, '0.15'],
    ['is that of the input where a file lowers the input alone below it', { input_per_million_tokens: '0.1' }, '0.1'],
    [
      'is what a file says beside a lower input',
      { input_per_million_tokens: '0.1', cached_input_per_million_tokens: '0.02' },
      '0.02',
    ],
  ])('the built-in price of cached input %s', (_, prices, cached) => {
    expect(findModel(override({ [TEXT]: prices }), 'text_generation', TEXT)?.cachedInputPerMillionTokensUsd).toBe(
      cached,
    )
  })

  it.each([
    [{ 'textmodel-9': {} }, /no model "textmodel-9"; the models are textmodel-3.6-flash, /],
    [{ [TEXT]: { price_per_audio_hour_usd: '1' } }, /model "textmodel-3.6-flash".*price_per_audio_hour_usd/s],
    [{ [TEXT]: { enabled: 'no' } }, /model "textmodel-3.6-flash".*enabled/s],
    [{ [TEXT]: { input_per_million_tokens: 0.5 } }, /input_per_million_tokens/],
    [{ [TEXT]: { input_per_million_tokens: '-1' } }, /decimal dollars/],
    [{ [TEXT]: { input_per_million_tokens: '0.0000001' } }, /at most six decimals/],
    [{ [TEXT]: { cached_input_per_million_tokens: '0.51' } }, /0.51; it must be at most .*, 0.50/],
    [{ [SPEECH]: { cached_input_per_million_tokens: '0.1' } }, /cached_input_per_million_tokens/],
    [{ [TEXT]: { max_output_tokens: 65_537 } }, /max_output_tokens is 65537; the published limit is 65536/],
    [{ [TEXT]: { max_output_tokens: 0 } }, /max_output_tokens/],
    [{ [TEXT]: { maximum_charge_usd: '0.766953' } }, /published 0.002 to 0.766952 USD/],
    [{ [TEXT]: { minimum_charge_usd: '0.001' } }, /published 0.002 to 0.766952 USD/],
    [{ [TEXT]: { minimum_charge_usd: '0.5', maximum_charge_usd: '0.4' } }, /bounds of a call/],
    [{ [IMAGE]: { price_per_successful_image_usd: '0.04' } }, /price_per_successful_image_usd.*0.035 to 0.035/],
    [{ [SPEECH]: { maximum_characters: 2001 } }, /maximum_characters is 2001; the published limit is 2000/],
    [{ [SPEECH]: { default_voice: 'nobody' } }, /no voice "nobody"/],
    [{ [TRANSCRIPTION]: { maximum_audio_duration_ms: 3_600_001 } }, /maximum_audio_duration_ms/],
  ])('rejects %j', (models, message) => {
    expect(() => override(models)).toThrow(message)
  })

  it('gives a voice a retirement date, which changes the version', () => {
    const catalog = overrideVoices({
      eldrin: { retirement_date: '2027-01-31' },
      talia: {},
      jade: { retirement_date: null },
    })
    expect(catalog.voices.filter(({ retirementDate }) => retirementDate !== null)).toMatchObject([
      { id: 'eldrin', retirementDate: '2027-01-31' },
    ])
    expect(catalog.version).not.toBe(publishedCatalog.version)
  })

  it('rejects a retirement date of a default voice, of an unknown voice, and one that is no date', () => {
    const retired = { darian: { retirement_date: '2027-01-31' } }
    expect(() => overrideVoices(retired)).toThrow(
      /default voice "darian" has the retirement date 2027-01-31; set default_voice/,
    )
    expect(overrideVoices(retired, { [SPEECH]: { default_voice: 'talia' } }).models).toHaveLength(10)
    expect(() => overrideVoices({ alloy: {} })).toThrow(/no voice "alloy"; the voices are darian, talia, /)
    expect(() => overrideVoices({ talia: { retirement_date: 'soon' } })).toThrow(/voice "talia".*retirement_date/s)
    expect(() => overrideVoices({ talia: { name: 'Thalia' } })).toThrow(/voice "talia".*name/s)
  })

  it('rejects text that is not JSON and members other than models and voices', () => {
    expect(() => overrideCatalog(publishedCatalog, '{')).toThrow('not valid JSON')
    expect(() => overrideCatalog(publishedCatalog, '{"models":{},"model":{}}')).toThrow(/catalog file.*model/s)
    expect(() => overrideCatalog(publishedCatalog, '[]')).toThrow('catalog file')
  })
})
