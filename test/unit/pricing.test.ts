import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { atomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { type AnyOperation, type OperationId, operations } from '#shared/operations/registry.ts'
import { receiptSchema } from '#shared/payment/receipt.ts'
import { type PricedQuantity, roundedPrice, writeCalculation } from '#shared/pricing/calculation.ts'

const quantity = (measured: number, priceUsd: string, units: bigint, atMost: number | null = null): PricedQuantity => ({
  usage: 'input_tokens',
  measured,
  atMost,
  unit: 'token',
  priceUsd,
  units,
})
const bounds = { minimum: atomicAmount(0n), maximum: atomicAmount(10n ** 12n) }
const count = fc.nat({ max: 5_000_000 })
const price = fc.nat({ max: 50_000_000 }).map((atomic) => (atomic / 1e6).toFixed(6))
const bound = fc.integer({ min: 1, max: 5_000_000 })
const chargeBounds = { minimum_charge_usd: fc.constant('0.002'), maximum_charge_usd: fc.constant('0.9') }
interface Case {
  readonly usage: fc.Arbitrary<Record<string, number>>
  readonly terms: fc.Arbitrary<Record<string, unknown>>
  /** The usage that the quote was made for. */
  readonly quoted: (usage: Record<string, number>, terms: Record<string, unknown>) => unknown
}
const text: Case = {
  usage: fc.record({ input_tokens: count, output_tokens: count }),
  terms: fc.record({
    input_per_million_tokens_usd: price,
    output_per_million_tokens_usd: price,
    maximum_input_tokens: bound,
    maximum_output_tokens: bound,
    ...chargeBounds,
  }),
  quoted: (_, terms) => ({
    input_tokens: terms['maximum_input_tokens'],
    output_tokens: terms['maximum_output_tokens'],
  }),
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
  ])('states that the %s was applied', (applied, measured, { minimum, maximum }, charge) => {
    const limits = { minimum: atomicAmount(minimum), maximum: atomicAmount(maximum) }
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
        const written = writeCalculation(operation.pricedQuantities(measured, priced), {
          minimum: atomicFromDollars('0.002'),
          maximum: operation.charge(operation.usageSchema.parse(quoted(someUsage, someTerms)), priced),
        })
        expect(written.charge_atomic).toBe(operation.charge(measured, priced).toString())
      }),
    )
  })
})
