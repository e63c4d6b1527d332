import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { boundedCharge } from '#shared/pricing/bounded-charge.ts'
import { bitRateFor, longestAtMinimumMs } from '../../../../client/audio/limits.ts'

const PUBLISHED = { maximumBytes: 26_214_400, maximumDurationMs: 3_600_000 }

const micro = (max: number) => fc.integer({ min: 1, max }).map((amount) => (amount / 1e6).toFixed(6))

describe('bitRateFor', () => {
  test('keeps an hour below 25 MiB', () => {
    expect(bitRateFor(PUBLISHED)).toBe(48)
  })

  test('keeps the longest recording below any limit that a bit rate of MP3 can keep', () => {
    const limits = fc.record({
      maximumBytes: fc.integer({ min: 1_000_000, max: 1_000_000_000 }),
      maximumDurationMs: fc.integer({ min: 60_000, max: 36_000_000 }),
    })
    fc.assert(
      fc.property(limits, ({ maximumBytes, maximumDurationMs }) => {
        fc.pre((maximumBytes * 8 * 0.9) / maximumDurationMs >= 8)
        const bytes = (bitRateFor({ maximumBytes, maximumDurationMs }) * maximumDurationMs) / 8
        expect(bytes).toBeLessThan(maximumBytes)
      }),
    )
  })
})

describe('longestAtMinimumMs', () => {
  test('is 148.5 s at the published prices', () => {
    expect(longestAtMinimumMs({ pricePerAudioHourUsd: '0.122', minimumChargeUsd: '0.005034' })).toBe(148_544)
  })

  test('is the last duration that the service charges the minimum, at any prices', () => {
    fc.assert(
      fc.property(micro(10_000_000), micro(20_000), (pricePerAudioHourUsd, minimumChargeUsd) => {
        const longest = longestAtMinimumMs({ pricePerAudioHourUsd, minimumChargeUsd })
        const charge = (measured: number) =>
          boundedCharge(
            [
              {
                usage: 'input_audio_ms',
                measured,
                atMost: null,
                unit: 'millisecond',
                priceUsd: pricePerAudioHourUsd,
                units: 3_600_000n,
              },
            ],
            { minimum_charge_usd: minimumChargeUsd, maximum_charge_usd: '1000' },
          )
        expect(charge(longest)).toBe(charge(0))
        expect(charge(longest + 1)).toBeGreaterThan(charge(0))
      }),
    )
  })

  test('refuses what is no amount', () => {
    expect(() => longestAtMinimumMs({ pricePerAudioHourUsd: '1e-3', minimumChargeUsd: '0.1' })).toThrow(RangeError)
  })
})
