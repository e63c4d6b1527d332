import { describe, expect, it } from 'vitest'
import { createCatalog, type Model, withoutRetiredVoices } from '#shared/catalog/catalog.ts'
import { priceBounds } from '#shared/catalog/price-bounds.ts'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { atomicRoundedUp, priceOf, unitPrice } from '#shared/money/unit-price.ts'

const { models, voices } = publishedCatalog
const idsOf = (category: Model['category']) => models.filter((model) => model.category === category).map(({ id }) => id)
const textModels = models.filter((model) => model.category === 'text_generation')
const MILLION = 1_000_000n

function textPrice(model: (typeof textModels)[number], inputTokens: bigint, outputTokens: bigint): bigint {
  const input = atomicRoundedUp(priceOf(unitPrice(model.inputPerMillionTokensUsd, MILLION), inputTokens))
  return input + atomicRoundedUp(priceOf(unitPrice(model.outputPerMillionTokensUsd, MILLION), outputTokens))
}

const speechWith = (voices: readonly string[] | 'all') =>
  availableCatalog(
    publishedCatalog,
    new Map([['speechvendor/flash-v2.5', voices === 'all' ? voices : new Set(voices)]]),
  )

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
