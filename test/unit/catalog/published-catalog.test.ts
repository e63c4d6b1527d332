import { describe, expect, it } from 'vitest'
import { createCatalog, type Model } from '#shared/catalog/catalog.ts'
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
      availableCatalog(publishedCatalog, new Set([first.id])),
    ].map(({ version }) => version)
    expect(new Set(versions).size).toBe(4)
  })
})

describe('availableCatalog', () => {
  it('keeps the models with a deployment, in their order', () => {
    const available = availableCatalog(
      publishedCatalog,
      new Set(['speechvendor/scribe-v2', 'textmodel-2.5-pro', 'else']),
    )
    expect(available.models.map(({ id }) => id)).toEqual(['textmodel-2.5-pro', 'speechvendor/scribe-v2'])
  })

  it('a category without available models has no price bounds', () => {
    const available = availableCatalog(publishedCatalog, new Set(['textmodel-2.5-pro']))
    expect(priceBounds(available, 'image_generation')).toBeUndefined()
    expect(priceBounds(available, 'text_generation')).toBeDefined()
  })
})
