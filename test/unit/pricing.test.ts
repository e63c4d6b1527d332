import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkCharge } from '#receipts/check-charge.ts'
import { overrideCatalogWith } from '#shared/catalog/catalog-file.ts'
import type { DeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { textModels } from '#shared/catalog/published-models.ts'
import { compareWithCost, describeBelowCost, vendorCost } from '#shared/catalog/vendor-cost.ts'
import { atomicAmount, atomicFromDollars, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { type AnyOperation, type OperationId, operations } from '#shared/operations/registry.ts'
import { speech } from '#shared/operations/speech.ts'
import {
  chargeText,
  dearestUsage,
  pricedTokens,
  type TextTerms,
  textTermsSchema,
} from '#shared/operations/text/text-quote.ts'
import { textUsageSchema } from '#shared/operations/text/text-request.ts'
import { receiptSchema } from '#shared/payment/receipt.ts'
import { chargeBoundsSchema, raisedToGas } from '#shared/pricing/bounded-charge.ts'
import { type PricedQuantity, roundedPrice, writeCalculation } from '#shared/pricing/calculation.ts'

const quantity = (measured: number, priceUsd: string, units: bigint, atMost: number | null = null): PricedQuantity => ({
  usage: 'input_tokens',
  measured,
  atMost,
  unit: 'token',
  priceUsd,
  units,
})
/** As shipped: its voices are samples, which the parser refuses. */
const example = (name: string) => JSON.parse(readFileSync(`infra/${name}`, 'utf8')) as DeploymentsFile
const larger = (one: bigint, other: bigint) => (one > other ? one : other)
const bounds = { minimum: atomicAmount(0n), maximum: atomicAmount(10n ** 12n) }
const count = fc.nat({ max: 5_000_000 })
const price = fc.nat({ max: 50_000_000 }).map((atomic) => (atomic / 1e6).toFixed(6))
const bound = fc.integer({ min: 1, max: 5_000_000 })
/** The minimum by gas is `0` where the minimum does not follow the gas. */
const chargeBounds = {
  minimum_charge_usd: fc.constant('0.002'),
  maximum_charge_usd: fc.constant('0.9'),
  gas_minimum_charge_usd: fc.constantFrom('0', '0.0021', '0.4', '0.9'),
}
interface Case {
  readonly usage: fc.Arbitrary<Record<string, number>>
  readonly terms: fc.Arbitrary<Record<string, unknown>>
  /** The usage that the quote was made for. */
  readonly quoted: (usage: Record<string, number>, terms: Record<string, unknown>) => unknown
}
const REQUIRED_TERMS: (keyof TextTerms)[] = [
  'input_per_million_tokens_usd',
  'output_per_million_tokens_usd',
  'maximum_input_tokens',
  'maximum_output_tokens',
  'minimum_charge_usd',
  'maximum_charge_usd',
]
const text: Case = {
  usage: fc
    .record({ uncached: count, cached: count, written: count, output: count })
    .map(({ uncached, cached, written, output }) => ({
      input_tokens: uncached + cached + written,
      ...(cached === 0 ? {} : { cached_input_tokens: cached }),
      ...(written === 0 ? {} : { cache_write_tokens: written }),
      output_tokens: output,
    })),
  terms: fc.record(
    {
      input_per_million_tokens_usd: price,
      cached_input_per_million_tokens_usd: price,
      cache_write_per_million_tokens_usd: price,
      output_per_million_tokens_usd: price,
      maximum_input_tokens: bound,
      maximum_output_tokens: bound,
      ...chargeBounds,
    },
    { noNullPrototype: true, requiredKeys: REQUIRED_TERMS },
  ),
  quoted: (_, terms) => dearestUsage(textTermsSchema.parse(terms)),
}
const cases: Record<OperationId, Case> = {
  createChatCompletion: text,
  createMessage: text,
  createImageGeneration: {
    usage: fc.constant({ images: 1 }),
    terms: fc.record({ price_per_image_usd: price, ...chargeBounds }),
    quoted: (usage) => usage,
  },
  createSpeech: {
    usage: fc.record({ input_characters: bound }),
    terms: fc.record({ price_per_thousand_characters_usd: price, maximum_characters: bound, ...chargeBounds }),
    quoted: (_, terms) => ({ input_characters: terms['maximum_characters'] }),
  },
  createTranscription: {
    usage: fc.record({ input_audio_ms: bound }),
    terms: fc.record({ price_per_audio_hour_usd: price, ...chargeBounds }),
    quoted: (usage) => usage,
  },
}

/** The prices of terms, as receipts state them. */
const pricesIn = (terms: object): Record<string, string> =>
  Object.fromEntries(Object.entries(terms).filter((entry): entry is [string, string] => typeof entry[1] === 'string'))
const maxima = (maximum: bigint) => ({
  quoted_maximum_atomic: maximum.toString(),
  authorized_maximum_atomic: maximum.toString(),
})

describe('a calculation', () => {
  it('shows exact products and their exact sum, rounded up once', () => {
    const written = writeCalculation([quantity(21, '0.40', 1_000_000n), quantity(3, '2.80', 1_000_000n)], bounds)
    expect(written.lines.map((line) => line.product_usd)).toEqual(['0.0000084', '0.0000084'])
    expect(written).toMatchObject({ sum_usd: '0.0000168', rounded_atomic: '17', charge_atomic: '17', applied: 'none' })
  })

  it('writes a non-terminating decimal as a fraction in lowest terms', () => {
    const { lines, sum_usd } = writeCalculation([quantity(148_520, '0.122', 3_600_000n)], bounds)
    expect([lines[0]?.product_usd, sum_usd]).toEqual(['226493/45000000', '226493/45000000'])
  })

  it('charges no more than the quantity proven before the call', () => {
    const { lines, charge_atomic } = writeCalculation([quantity(90, '1', 1n, 50)], bounds)
    expect(lines[0]).toMatchObject({ measured: 90, at_most: 50, quantity: '50', product_usd: '50' })
    expect(charge_atomic).toBe('50000000')
  })

  it.each([
    ['minimum', 1, { minimum: 5n, maximum: 9n }, '5'],
    ['maximum', 10, { minimum: 5n, maximum: 9n }, '9'],
    // A second authorization may be for less than the minimum.
    ['maximum', 1, { minimum: 5n, maximum: 3n }, '3'],
    ['none', 5, { minimum: 5n, maximum: 9n }, '5'],
    ['none', 9, { minimum: 5n, maximum: 9n }, '9'],
    ['minimum', 1, { minimum: 5n, maximum: 5n }, '5'],
    ['gas_minimum', 1, { minimum: 5n, gas: 7n, maximum: 9n }, '7'],
    ['none', 8, { minimum: 5n, gas: 7n, maximum: 9n }, '8'],
    ['maximum', 1, { minimum: 5n, gas: 7n, maximum: 6n }, '6'],
  ])('states that the %s was applied', (applied, measured, { minimum, maximum, ...others }, charge) => {
    const gasMinimum = 'gas' in others ? atomicAmount(others.gas) : null
    const limits = { minimum: atomicAmount(minimum), gasMinimum, maximum: atomicAmount(maximum) }
    expect(writeCalculation([quantity(measured, '0.000001', 1n)], limits)).toMatchObject({
      applied,
      charge_atomic: charge,
    })
  })

  it('the price of several quantities is at most the sum of their rounded prices', () => {
    const count = fc.nat({ max: 10_000_000 })
    fc.assert(
      fc.property(count, count, (one, other) => {
        const parts = [quantity(one, '0.122', 3_600_000n), quantity(other, '2.80', 1_000_000n)]
        const separately = parts.reduce((sum, part) => sum + roundedPrice([part]), 0n)
        const together = roundedPrice(parts)
        return together <= separately && separately <= together + 1n
      }),
    )
  })

  it('a calculation is a valid part of a receipt', () => {
    const written = writeCalculation([quantity(148_520, '0.122', 3_600_000n), quantity(1, '0.035', 1n)], bounds)
    expect(receiptSchema.shape.calculation.parse(written)).toEqual(written)
  })
})

describe.each(operations)('the charge of $id', (operation: AnyOperation) => {
  it('the charge equals that of its calculation for any usage and terms', () => {
    const { usage, terms, quoted } = cases[operation.id]
    fc.assert(
      fc.property(usage, terms, (someUsage, someTerms) => {
        const [measured, priced] = [operation.usageSchema.parse(someUsage), operation.termsSchema.parse(someTerms)]
        const { gas_minimum_charge_usd: gasMinimum = '0' } = chargeBoundsSchema.parse(priced)
        const written = writeCalculation(operation.pricedQuantities(measured, priced), {
          minimum: atomicFromDollars('0.002'),
          gasMinimum: atomicFromDollars(gasMinimum),
          maximum: operation.charge(operation.usageSchema.parse(quoted(someUsage, someTerms)), priced),
        })
        expect(written.charge_atomic).toBe(operation.charge(measured, priced).toString())
      }),
    )
  })
})

/** The quote of speech of so many characters. */
const quoteOf = (characters: number) => {
  const terms = {
    price_per_thousand_characters_usd: '0.1',
    minimum_charge_usd: '0.002',
    maximum_charge_usd: '0.441',
    maximum_characters: characters,
  }
  const quotedMaximum = speech.charge({ input_characters: characters }, terms)
  return { quotedMaximum, catalogVersion: 'catalog-1', terms }
}

describe('a quote whose minimum follows the gas', () => {
  const model = publishedCatalog.models.find(({ category }) => category === 'text_to_speech')
  it('is what it is without, while the gas costs no more than the published minimum', () => {
    expect(model?.minimumChargeUsd).toBe('0.002')
    expect(raisedToGas(quoteOf(10), atomicAmount(2000n))).toEqual(quoteOf(10))
  })

  it.each([
    ['the gas, for a call that costs less', 10, 3492n, 3492n, '0.003492'],
    ['its price, for a call that costs more', 1000, 3492n, 100_000n, '0.003492'],
    ['the published maximum, for gas above it', 10, 9_000_000n, 441_000n, '0.441'],
  ])('is at most %s', (_, characters, gas, maximum, shown) => {
    const raised = raisedToGas(quoteOf(characters), atomicAmount(gas))
    expect(raised.quotedMaximum).toBe(maximum)
    expect(raised.terms).toEqual({ ...quoteOf(characters).terms, gas_minimum_charge_usd: shown })
  })

  it('never charges more than its maximum nor less than the gas, and every receipt of it is recomputed', () => {
    fc.assert(
      fc.property(fc.nat({ max: 4000 }), fc.nat({ max: 4000 }), fc.nat({ max: 1_000_000 }), (most, less, gas) => {
        const { quotedMaximum, terms } = raisedToGas(quoteOf(Math.max(most, 1)), atomicAmount(BigInt(gas)))
        const priced = speech.termsSchema.parse(terms)
        const usage = { input_characters: Math.max(1, Math.min(less, most)) }
        const charge = speech.charge(usage, priced)
        expect(charge).toBeLessThanOrEqual(quotedMaximum)
        expect(charge).toBeGreaterThanOrEqual(Math.min(gas, 441_000))
        const unitPrices = pricesIn(priced)
        const check = (prices: typeof unitPrices) =>
          checkCharge({
            usage,
            unit_prices: prices,
            ...maxima(quotedMaximum),
            charge_atomic: charge.toString(),
            charge_usdc: dollarsFromAtomic(charge),
            calculation: writeCalculation(speech.pricedQuantities(usage, priced), {
              minimum: atomicFromDollars('0.002'),
              gasMinimum: priced.gas_minimum_charge_usd ? atomicFromDollars(priced.gas_minimum_charge_usd) : null,
              maximum: quotedMaximum,
            }),
          })
            .filter(({ outcome }) => outcome !== 'passed')
            .map(({ detail }) => detail)
        expect(check(unitPrices)).toEqual([])
        if (priced.gas_minimum_charge_usd === undefined) return
        const { gas_minimum_charge_usd: _, ...without } = unitPrices
        expect(check(without)[0]).toContain('gas_minimum_atomic is wrong')
      }),
    )
  })
})

describe('input that the vendor’s prompt cache had a part in', () => {
  const terms = {
    input_per_million_tokens_usd: '1',
    cached_input_per_million_tokens_usd: '0.1',
    cache_write_per_million_tokens_usd: '1.25',
    output_per_million_tokens_usd: '10',
    minimum_charge_usd: '0',
    maximum_charge_usd: '9',
    maximum_input_tokens: 30_000,
    maximum_output_tokens: 10,
  }
  const usage = { input_tokens: 26_000, cached_input_tokens: 24_000, cache_write_tokens: 1500, output_tokens: 10 }
  const quantitiesOf = (some: typeof usage, under: object) =>
    pricedTokens(some, textTermsSchema.parse(under)).map(({ usage: name, measured, atMost, priceUsd }) => [
      name,
      measured,
      atMost,
      priceUsd,
    ])

  it('is charged as any other without a price of its own', () => {
    const { cached_input_per_million_tokens_usd: _, cache_write_per_million_tokens_usd: __, ...plain } = terms
    expect(quantitiesOf(usage, plain)[0]).toEqual(['input_tokens', 26_000, 30_000, '1'])
  })

  it('is charged by its own prices, and no more tokens than the quote proved', () => {
    expect(quantitiesOf(usage, terms)).toEqual([
      ['cached_input_tokens', 24_000, 30_000, '0.1'],
      ['uncached_input_tokens', 500, 6000, '1'],
      ['cache_write_tokens', 1500, 5500, '1.25'],
      ['output_tokens', 10, 10, '10'],
    ])
    expect(chargeText(usage, terms)).toBe(2400n + 500n + 1875n + 100n)
    expect(chargeText(usage, { ...terms, maximum_input_tokens: 24_400 })).toBe(2400n + 400n + 100n)
  })

  it.each([
    ['the cache price alone', { cache_write_per_million_tokens_usd: undefined }, ['0.1', '1', '1']],
    ['the price of writes alone', { cached_input_per_million_tokens_usd: undefined }, ['1', '1', '1.25']],
  ])('has the price of the input where there is %s', (_, without, prices) => {
    expect(
      quantitiesOf(usage, { ...terms, ...without })
        .slice(0, 3)
        .map(([, , , priceUsd]) => priceUsd),
    ).toEqual(prices)
  })

  it('no split of any input costs more than the maximum that is signed, and every receipt of it is recomputed', () => {
    fc.assert(
      fc.property(text.usage, text.terms, (someUsage, someTerms) => {
        // Bounds of a call that decide nothing.
        const bounds = { minimum_charge_usd: '0', maximum_charge_usd: '999999', gas_minimum_charge_usd: undefined }
        const priced = textTermsSchema.parse({ ...someTerms, ...bounds })
        const measured = textUsageSchema.parse(someUsage)
        const maximum = chargeText(dearestUsage(priced), priced)
        const charge = chargeText(measured, priced)
        expect(charge).toBeLessThanOrEqual(maximum)
        const quantities = pricedTokens(measured, priced)
        const { lines, ...calculation } = writeCalculation(quantities, {
          minimum: atomicFromDollars(priced.minimum_charge_usd),
          maximum,
        })
        const charged = lines
          .filter(({ usage: name }) => name !== 'output_tokens')
          .reduce((sum, { quantity: tokens }) => sum + Number(tokens), 0)
        expect(charged).toBe(Math.min(measured.input_tokens, priced.maximum_input_tokens))
        const checks = checkCharge({
          usage: someUsage,
          unit_prices: pricesIn(priced),
          ...maxima(maximum),
          charge_atomic: charge.toString(),
          charge_usdc: dollarsFromAtomic(charge),
          calculation: { lines, ...calculation },
        })
        expect(checks.filter(({ outcome }) => outcome !== 'passed')).toEqual([])
      }),
      { numRuns: 500 },
    )
  })

  it('parts beyond the whole are no usage', () => {
    expect(() =>
      textUsageSchema.parse({ input_tokens: 5, cached_input_tokens: 3, cache_write_tokens: 3, output_tokens: 1 }),
    ).toThrow('parts of input_tokens')
  })
})

describe('what a vendor bills', () => {
  const read = { as_of: '2026-11-26', source: 'https://vendor.example/pricing' }
  const textPrices = { ...read, input_per_million_tokens: '0.3', output_per_million_tokens: '2.5' }

  it.each<[string, Record<string, string>, Record<string, number>, bigint | null]>([
    ['tokens of both directions, rounded up once', textPrices, { input_tokens: 1, output_tokens: 1 }, 3n],
    ['a million tokens', textPrices, { input_tokens: 1_000_000, output_tokens: 0 }, 300_000n],
    [
      'input from and to its prompt cache by their own prices',
      { ...textPrices, cached_input_per_million_tokens: '0.03', cache_write_per_million_tokens: '0.375' },
      { input_tokens: 1_000_000, cached_input_tokens: 700_000, cache_write_tokens: 200_000, output_tokens: 0 },
      21_000n + 75_000n + 30_000n,
    ],
    [
      'input from and to its prompt cache as any other without such prices',
      textPrices,
      { input_tokens: 1_000_000, cached_input_tokens: 700_000, cache_write_tokens: 200_000, output_tokens: 0 },
      300_000n,
    ],
    ['images', { ...read, price_per_image_usd: '0.0336' }, { images: 2 }, 67_200n],
    ['characters', { ...read, price_per_thousand_characters_usd: '0.05' }, { input_characters: 41 }, 2050n],
    ['an hour of audio', { ...read, price_per_audio_hour_usd: '0.22' }, { input_audio_ms: 3_600_000 }, 220_000n],
    ['usage without a price of it', { ...read, input_per_million_tokens: '0.3' }, { output_tokens: 7 }, null],
    [
      'usage with a price of one part',
      { ...read, input_per_million_tokens: '1' },
      { input_tokens: 1, output_tokens: 1 },
      null,
    ],
  ])('of %s', (_, prices, usage, cost) => {
    expect(vendorCost(prices as typeof textPrices, usage)).toBe(cost)
  })

  it('is not known of a deployment without prices', () => {
    expect(vendorCost(undefined, { input_tokens: 1, output_tokens: 1 })).toBeNull()
  })
})

describe('prices compared with cost', () => {
  it.each(['deployments.example.json', 'deployments.full.example.json'])(
    'are known of every deployment in %s',
    (name) => {
      expect(compareWithCost(publishedCatalog, example(name)).withoutPrices).toEqual([])
    },
  )

  it('name what the shipped example sells below the list of its vendors', () => {
    const { belowCost } = compareWithCost(publishedCatalog, example('deployments.example.json'))
    expect(belowCost.map(describeBelowCost)).toContain(
      'speechvendor/scribe-v2 is sold below cost: price_per_audio_hour_usd is 0.122, and elevenlabs-transcription costs 0.22',
    )
  })

  it.each(['deployments.example.json', 'deployments.full.example.json'])(
    'of cached input are the vendor’s ratio of the published input or its own price, by %s, and never below cost',
    (name) => {
      const { deployments } = example(name)
      const ruled = textModels.map(({ id, inputPerMillionTokensUsd }) => {
        const input = atomicFromDollars(inputPerMillionTokensUsd)
        const wanted = deployments.flatMap(({ serves, prices }) => {
          const { input_per_million_tokens: full, cached_input_per_million_tokens: cached } = prices ?? {}
          if (!serves.includes(id) || full === undefined || cached === undefined) return []
          const [fullPrice, own] = [atomicFromDollars(full), atomicFromDollars(cached)]
          return [larger((own * input + fullPrice - 1n) / fullPrice, own)]
        })
        const dearest = wanted.reduce(larger)
        return [id, dearest < input ? dearest : input]
      })
      const sold = textModels.map((model) => [model.id, atomicFromDollars(model.cachedInputPerMillionTokensUsd ?? '0')])
      expect(sold).toEqual(ruled)
      const { belowCost } = compareWithCost(publishedCatalog, { deployments })
      expect(belowCost.filter(({ field }) => field === 'cached_input_per_million_tokens')).toEqual([])
    },
  )

  it('take a model as below cost for each of its prices and deployments, and not at the same price', () => {
    const serves = ['textmodel-3.6-flash']
    const [model] = publishedCatalog.models.filter(({ id }) => id === serves[0])
    if (model?.category !== 'text_generation') throw new Error('no such model')
    const same = {
      input_per_million_tokens: model.inputPerMillionTokensUsd,
      ...(model.cachedInputPerMillionTokensUsd && {
        cached_input_per_million_tokens: model.cachedInputPerMillionTokensUsd,
      }),
      output_per_million_tokens: model.outputPerMillionTokensUsd,
      as_of: '2026-11-26',
      source: 'a test',
    }
    const dearer = { ...same, output_per_million_tokens: '99' }
    const { belowCost, withoutPrices } = compareWithCost(publishedCatalog, {
      deployments: [
        { name: 'same', serves, prices: same },
        { name: 'dearer', serves, prices: dearer },
        { name: 'unknown', serves },
      ],
    })
    expect(belowCost).toMatchObject([{ deployment: 'dearer', field: 'output_per_million_tokens', costUsd: '99' }])
    expect(withoutPrices).toEqual(['unknown'])
  })

  it('name a vendor’s cache write that costs more than the input is sold for, and a cached read below its cost', () => {
    const serves = ['textmodel-3.6-flash']
    const prices = {
      input_per_million_tokens: '0.5',
      cached_input_per_million_tokens: '0.05',
      cache_write_per_million_tokens: '0.625',
      output_per_million_tokens: '3',
      as_of: '2026-11-26',
      source: 'a test',
    }
    const deployments = [{ name: 'claude', serves, prices }]
    const sold = (own: Record<string, string>) =>
      compareWithCost(overrideCatalogWith(publishedCatalog, { models: { [serves[0] ?? '']: own } }), { deployments })
        .belowCost
    expect(sold({}).map(describeBelowCost)).toEqual([
      'textmodel-3.6-flash is sold below cost: cache_write_per_million_tokens is 0.50, and claude costs 0.625',
    ])
    const cached = { cached_input_per_million_tokens: '0.04', cache_write_per_million_tokens: '0.625' }
    expect(sold(cached)).toMatchObject([
      { field: 'cached_input_per_million_tokens', priceUsd: '0.04', costUsd: '0.05' },
    ])
    expect(sold({ ...cached, cached_input_per_million_tokens: '0.05' })).toEqual([])
  })
})
