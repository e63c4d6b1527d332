import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import { sharesOf } from '../../../../client/batch/plan/group-packs.ts'
import { termsOf } from '../../../../client/batch/plan/pricing.ts'

const LIMITS = { maximum_audio_duration_ms: '3600000', maximum_audio_bytes: 26_214_400 }
const PUBLISHED = { price_per_audio_hour_usd: '0.122', minimum_charge_usd: '0.005034', maximum_charge_usd: '0.122' }
const amount = (most: number) =>
  fc.tuple(fc.integer({ min: 0, max: most }), fc.integer({ min: 0, max: 999_999 })).map(([whole, decimals]) => {
    return `${whole}.${String(decimals).padStart(6, '0')}`
  })

describe('the price of a recording', () => {
  it('is what the service charges, for any duration and prices', () => {
    const prices = fc.record({
      price_per_audio_hour_usd: amount(3),
      minimum_charge_usd: amount(0),
      maximum_charge_usd: amount(3),
    })
    fc.assert(
      fc.property(
        fc.oneof(fc.constant(PUBLISHED), prices),
        fc.integer({ min: 1, max: 3_600_000 }),
        (drawn, durationMs) => {
          fc.pre(atomicFromDollars(drawn.minimum_charge_usd) <= atomicFromDollars(drawn.maximum_charge_usd))
          const charge = transcriptions.charge({ input_audio_ms: durationMs }, drawn)
          expect(termsOf({ ...LIMITS, ...drawn }).priceOf(durationMs)).toBe(BigInt(charge))
        },
      ),
      { numRuns: 1000 },
    )
  })

  it('is the minimum up to 148,544 ms, and rounded up once beyond', () => {
    const { priceOf } = termsOf({ ...LIMITS, ...PUBLISHED })
    expect([1, 148_544, 148_545, 148_575, 3_600_000].map(priceOf)).toEqual([5034n, 5034n, 5035n, 5036n, 122_000n])
  })

  it('is divided among the clips of a pack without a remainder', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 1_000_000n }),
        fc.array(fc.integer({ min: 0, max: 150_000 }), { minLength: 1, maxLength: 50 }),
        (price, durationsMs) => {
          const shares = sharesOf(price, durationsMs)
          fc.pre(durationsMs.some((durationMs) => durationMs > 0))
          expect(shares.reduce((sum, share) => sum + share, 0n)).toBe(price)
          expect(shares.every((share, index) => share >= 0n && (durationsMs[index] !== 0 || share === 0n))).toBe(true)
        },
      ),
    )
  })
})
