import { describe, expect, it } from 'vitest'
import { createCatalog } from '#shared/catalog/catalog.ts'
import { overrideCatalogWith } from '#shared/catalog/catalog-file.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { operationById } from '#shared/operations/registry.ts'
import { type PastCall, priceAgain } from '#shared/operators/price-again.ts'
import { whatIf } from '#shared/operators/what-if.ts'

const AUDIO = { sha256: 'a'.repeat(64), bytes: 1000, durationMs: 1_800_000 }

/** One request of each operation with the usage that it might be measured with. */
const CALLS = [
  [
    'createChatCompletion',
    { model: 'textmodel-2.5-pro', messages: [{ role: 'user', content: 'x'.repeat(9000) }], max_tokens: 4000 },
    { input_tokens: 2500, output_tokens: 3100 },
  ],
  [
    'createMessage',
    { model: 'textmodel-2.5-pro', messages: [{ role: 'user', content: 'x'.repeat(9000) }], max_tokens: 4000 },
    { input_tokens: 2500, output_tokens: 3100 },
  ],
  ['createImageGeneration', { model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram' }, { images: 1 }],
  ['createSpeech', { model: 'speechvendor/flash-v2.5', input: 'x'.repeat(1500) }, { input_characters: 1500 }],
  ['createTranscription', { model: 'speechvendor/scribe-v2' }, { input_audio_ms: 1_800_000 }],
] as const

/** Other prices and bounds for every model. */
const other = createCatalog({
  ...publishedCatalog,
  models: publishedCatalog.models.map((model) => ({
    ...model,
    inputPerMillionTokensUsd: '2.75',
    outputPerMillionTokensUsd: '12.5',
    pricePerImageUsd: '0.05',
    pricePerThousandCharactersUsd: '0.3',
    pricePerAudioHourUsd: '0.2',
    minimumChargeUsd: '0.004',
    maximumChargeUsd: '0.9',
  })),
})

function pastCall(operationId: string, body: object, usage: JsonValue | null): PastCall {
  const operation = operationById(operationId)
  const quote = quoteUnder(operationId, body, publishedCatalog)
  return {
    jobId: crypto.randomUUID(),
    acceptedAt: new Date(),
    operation: operationId,
    model: (body as { model: string }).model,
    terms: quote.terms,
    usage,
    quotedMaximum: quote.quotedMaximum,
    charge: usage === null ? null : operation.charge(usage, quote.terms),
  }
}

function quoteUnder(operationId: string, body: object, catalog: typeof publishedCatalog) {
  const operation = operationById(operationId)
  const audio = operation.upload === null ? null : AUDIO
  return operation.quote(operation.effectiveRequest(operation.bodySchema.parse(body), audio, catalog), catalog)
}

describe('a past call under another catalog', () => {
  it.each(CALLS)('%s costs what a quote of that catalog would have charged', (operationId, body, usage) => {
    const quote = quoteUnder(operationId, body, other)
    expect(priceAgain(pastCall(operationId, body, usage), other)).toEqual({
      outcome: 'priced',
      quotedMaximum: quote.quotedMaximum,
      charge: operationById(operationId).charge(usage, quote.terms),
    })
  })

  it.each(CALLS)('%s costs the same under its own catalog', (operationId, body, usage) => {
    const call = pastCall(operationId, body, usage)
    const { quotedMaximum, charge } = call
    expect(priceAgain(call, publishedCatalog)).toEqual({ outcome: 'priced', quotedMaximum, charge })
  })

  it('a call without a result has a maximum and no charge', () => {
    const [[operationId, body]] = CALLS
    expect(priceAgain(pastCall(operationId, body, null), other)).toMatchObject({ charge: null })
  })

  it.each([
    ['a model that is not offered', { 'textmodel-2.5-pro': { enabled: false } }, 'textmodel-2.5-pro is not offered'],
    ['more output than its limit', { 'textmodel-2.5-pro': { max_output_tokens: 3999 } }, '4000 output tokens'],
    ['more tokens than its window', { 'textmodel-2.5-pro': { context_window: 9000 } }, 'above the limit of 9000'],
    ['a maximum above its bound', { 'textmodel-2.5-pro': { maximum_charge_usd: '0.01' } }, 'above the bound of 0.01'],
  ])('a call with %s is refused', (_, models, why) => {
    const [[operationId, body, usage]] = CALLS
    const draft = overrideCatalogWith(publishedCatalog, { models })
    expect(priceAgain(pastCall(operationId, body, usage), draft)).toEqual({
      outcome: 'refused',
      why: expect.stringContaining(why),
    })
  })
})

const total = (amounts: readonly (bigint | null)[]) =>
  atomicAmount(amounts.reduce<bigint>((sum, amount) => sum + (amount ?? 0n), 0n))

describe('what a draft would have changed', () => {
  const calls = CALLS.map(([operationId, body, usage]) => pastCall(operationId, body, usage))

  it('sums up charges and maxima of all calls, and by model', () => {
    const { total: all, byModel } = whatIf(calls, other)
    const priced = calls.map((call) => priceAgain(call, other))
    expect(all).toEqual({
      calls: 5,
      refused: 0,
      charged: {
        actual: total(calls.map(({ charge }) => charge)),
        draft: total(priced.map((one) => (one.outcome === 'priced' ? one.charge : null))),
      },
      quoted: {
        actual: total(calls.map(({ quotedMaximum }) => quotedMaximum)),
        draft: total(priced.map((one) => (one.outcome === 'priced' ? one.quotedMaximum : null))),
      },
    })
    expect(byModel.map(({ model, calls: count }) => [model, count])).toEqual([
      ['speechvendor/flash-v2.5', 1],
      ['speechvendor/scribe-v2', 1],
      ['textmodel-2.5-pro', 2],
      ['textmodel-3.1-flash-lite-image', 1],
    ])
  })

  it('a refused call is counted and not summed up', () => {
    const draft = overrideCatalogWith(publishedCatalog, { models: { 'textmodel-2.5-pro': { enabled: false } } })
    expect(whatIf(calls, draft).total).toMatchObject({ calls: 5, refused: 2 })
  })

  it('names the calls that change most first, and none that stays', () => {
    const { examples } = whatIf(calls, other)
    const sizes = examples.map(({ difference }) => (difference < 0n ? -difference : difference))
    expect(sizes.length).toBeGreaterThan(0)
    expect(sizes).toEqual(sizes.toSorted((left, right) => Number(right - left)))
    expect(whatIf(calls, publishedCatalog).examples).toEqual([])
  })
})
