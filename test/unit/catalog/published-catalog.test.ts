import { describe, expect, it } from 'vitest'
import { createCatalog, type Model } from '#shared/catalog/catalog.ts'
import { categories, categoryOf } from '#shared/catalog/categories.ts'
import { priceBounds } from '#shared/catalog/price-bounds.ts'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { atomicRoundedUp, priceOf, unitPrice } from '#shared/money/unit-price.ts'
import { operations } from '#shared/operations/registry.ts'

const { models, voices } = publishedCatalog
const idsOf = (category: Model['category']) => models.filter((model) => model.category === category).map(({ id }) => id)
const textModels = models.filter((model) => model.category === 'text_generation')
const MILLION = 1_000_000n

function textPrice(model: (typeof textModels)[number], inputTokens: bigint, outputTokens: bigint): bigint {
  const input = atomicRoundedUp(priceOf(unitPrice(model.inputPerMillionTokensUsd, MILLION), inputTokens))
  return input + atomicRoundedUp(priceOf(unitPrice(model.outputPerMillionTokensUsd, MILLION), outputTokens))
}

describe('the published catalog', () => {
  it('has exactly the models of the specification, in its order', () => {
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

  it('prices image, speech and transcription as specified', () => {
    expect(models.slice(-3)).toMatchObject([
      { pricePerImageUsd: '0.035' },
      { pricePerThousandCharactersUsd: '0.2205', maximumCharacters: 2000, defaultVoice: 'darian' },
      { pricePerAudioHourUsd: '0.122', maximumAudioDurationMs: 3_600_000, maximumAudioBytes: 26_214_400 },
    ])
  })

  it.each(textModels)('$id: has limits within the specification and a readable date', (model) => {
    expect(model.maximumOutputTokens).toBeLessThanOrEqual(65_536)
    expect(model.contextWindow).toBeGreaterThan(model.maximumOutputTokens)
    expect(new Date(model.created * 1000).getUTCFullYear()).toBeGreaterThan(2020)
  })

  it.each(textModels.filter(({ id }) => !id.endsWith('-pro')))(
    '$id: a short request with the default output ceiling costs the minimum',
    (model) => {
      expect(textPrice(model, 200n, 512n)).toBeLessThanOrEqual(atomicFromDollars(model.minimumChargeUsd))
    },
  )

  it('has a text model whose largest allowed request reaches the maximum exactly', () => {
    const reaches = textModels.some((model) => {
      const output = BigInt(model.maximumOutputTokens)
      const room = atomicFromDollars(model.maximumChargeUsd) - textPrice(model, 0n, output)
      const inputTokens = (room * MILLION) / atomicFromDollars(model.inputPerMillionTokensUsd)
      const fits = inputTokens + output <= BigInt(model.contextWindow)
      return fits && textPrice(model, inputTokens, output) === atomicFromDollars(model.maximumChargeUsd)
    })
    expect(reaches).toBe(true)
  })

  it('has the 20 voices, each described', () => {
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

describe('categories', () => {
  it.each(operations)('$id: its path is an endpoint of its category and of no other', ({ path, category }) => {
    expect(categoryOf(category).endpoints.map((endpoint) => endpoint.path)).toContain(path)
    expect(categories.flatMap(({ endpoints }) => endpoints).filter((endpoint) => endpoint.path === path)).toHaveLength(
      1,
    )
  })

  it('names no endpoint that is not served', () => {
    const served = operations.map(({ path }) => path)
    expect(categories.flatMap(({ endpoints }) => endpoints.map(({ path }) => path)).toSorted()).toEqual(
      served.toSorted(),
    )
  })
})

describe('the catalog version', () => {
  it('is the same for the same content', () => {
    expect(createCatalog({ models, voices }).version).toBe(publishedCatalog.version)
  })

  it('changes with any price, limit, voice and with availability', () => {
    const [first, ...others] = models
    const [voice, ...otherVoices] = voices
    if (!first || !voice) throw new Error('the catalog is empty')
    const versions = [
      publishedCatalog,
      createCatalog({ models: [{ ...first, maximumChargeUsd: '0.7' }, ...others], voices }),
      createCatalog({ models, voices: [{ ...voice, retirementDate: '2027-01-01' }, ...otherVoices] }),
      availableCatalog(publishedCatalog, new Set([first.id])),
    ].map(({ version }) => version)
    expect(new Set(versions).size).toBe(4)
  })
})

describe('availableCatalog', () => {
  it('keeps the models that have a deployment, in their order', () => {
    const available = availableCatalog(
      publishedCatalog,
      new Set(['speechvendor/scribe-v2', 'textmodel-2.5-pro', 'else']),
    )
    expect(available.models.map(({ id }) => id)).toEqual(['textmodel-2.5-pro', 'speechvendor/scribe-v2'])
  })

  it('leaves a category without bounds when none of its models is left', () => {
    const available = availableCatalog(publishedCatalog, new Set(['textmodel-2.5-pro']))
    expect(priceBounds(available, 'image_generation')).toBeUndefined()
    expect(priceBounds(available, 'text_generation')).toBeDefined()
  })
})
