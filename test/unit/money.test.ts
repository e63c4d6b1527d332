import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { atomicAmount, atomicFromDollars, dollarsFromAtomic, parseAtomicAmount } from '#shared/money/atomic-amount.ts'
import { usdcOfWei } from '#shared/money/native-token.ts'
import { clamp, divideRoundingUp } from '#shared/money/rounding.ts'
import { atomicRoundedUp, priceOf, unitPrice } from '#shared/money/unit-price.ts'

/** Returns the price of milliseconds of audio. */
const audioPrice = (quantity: bigint) => atomicRoundedUp(priceOf(unitPrice('0.122', 3_600_000n), quantity))
const amounts = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })

describe('amounts of the native token', () => {
  it.each([
    ['one token', 10n ** 18n, 4000, 4_000_000_000n],
    ['a settlement by permit at 0.01 gwei', 177_000n * 10n ** 7n, 4000, 7080n],
    ['a reverted settlement at 5 gwei', 196_006n * 5n * 10n ** 9n, 4000, 3_920_120n],
    ['a price with cents', 10n ** 18n, 1.25, 1_250_000n],
    ['less than an atomic unit, rounded up', 1n, 4000, 1n],
    ['nothing', 0n, 4000, 0n],
  ])('converts %s to atomic USDC', (_, wei, price, expected) => {
    expect(usdcOfWei(wei, price)).toBe(expected)
  })
})

describe('an amount', () => {
  it('rejects a negative amount', () => {
    expect(() => atomicAmount(-1n)).toThrow(RangeError)
    expect(atomicAmount(0n)).toBe(0n)
  })

  it('accepts only decimal digits as a wire amount', () => {
    const others = [
      '',
      ' 1',
      '1 ',
      '+1',
      '-1',
      '01',
      '00',
      '1.0',
      '1e3',
      '0x10',
      '1_000',
      '١',
      '1\n',
      'NaN',
      '9'.repeat(79),
    ]
    for (const text of others) expect([text, parseAtomicAmount(text)]).toEqual([text, null])
    expect(parseAtomicAmount('0')).toBe(0n)
    expect(parseAtomicAmount('9'.repeat(78))).toBe(10n ** 78n - 1n)
  })

  it('an amount of any size survives a round trip through its wire form', () => {
    fc.assert(fc.property(amounts, (value) => parseAtomicAmount(value.toString()) === value))
  })

  it('an amount of any size survives a round trip through dollars', () => {
    fc.assert(fc.property(amounts, (value) => atomicFromDollars(dollarsFromAtomic(atomicAmount(value))) === value))
  })

  it('writes dollars without trailing zeros, exponents or floating-point errors', () => {
    const written = [
      [0n, '0'],
      [1n, '0.000001'],
      [5034n, '0.005034'],
      [122_000n, '0.122'],
      [1_000_000n, '1'],
      [1_000_001n, '1.000001'],
      [12_345_678_901_234_567_890_123_456n, '12345678901234567890.123456'],
    ] as const
    for (const [value, dollars] of written) expect(dollarsFromAtomic(atomicAmount(value))).toBe(dollars)
  })

  it('parses dollars exactly or throws', () => {
    expect(atomicFromDollars('0.1')).toBe(100_000n)
    expect(atomicFromDollars('9007199254740993.000001')).toBe(9_007_199_254_740_993_000_001n)
    for (const text of ['', '.', '.5', '1.', '0.0000001', '-1', '+1', '1e2', '$1', '1,000', ' 1', '0x1', 'Infinity'])
      expect(() => atomicFromDollars(text)).toThrow(RangeError)
  })
})

describe('rounding', () => {
  it('rounds up to the next whole unit and never further', () => {
    fc.assert(
      fc.property(amounts, fc.bigInt({ min: 1n, max: 2n ** 128n }), (dividend, divisor) => {
        const quotient = divideRoundingUp(dividend, divisor)
        return quotient * divisor >= dividend && (quotient === 0n || (quotient - 1n) * divisor < dividend)
      }),
    )
  })

  it('rejects negative dividends, non-positive divisors and empty ranges', () => {
    expect(() => divideRoundingUp(-1n, 2n)).toThrow(RangeError)
    expect(() => divideRoundingUp(1n, 0n)).toThrow(RangeError)
    expect(() => divideRoundingUp(1n, -2n)).toThrow(RangeError)
    expect(() => clamp(1n, 3n, 2n)).toThrow(RangeError)
  })

  it('the price of a sum is at most the sum of the prices', () => {
    const quantity = fc.bigInt({ min: 0n, max: 10n ** 12n })
    fc.assert(
      fc.property(quantity, quantity, (one, other) => {
        const [whole, parts] = [audioPrice(one + other), audioPrice(one) + audioPrice(other)]
        return whole <= parts && parts <= whole + 1n
      }),
    )
  })
})

describe('a unit price', () => {
  it('a multiple of the units costs the same multiple of the unit price', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), (hours) => {
        return audioPrice(hours * 3_600_000n) === hours * 122_000n
      }),
    )
  })

  it('the smallest quantity costs one atomic unit, and zero quantity costs nothing', () => {
    expect(atomicRoundedUp(priceOf(unitPrice('0.000001', 1_000_000n), 1n))).toBe(1n)
    expect(atomicRoundedUp(priceOf(unitPrice('0.000001', 1_000_000n), 0n))).toBe(0n)
  })

  it('rejects a price for less than one unit', () => {
    expect(() => unitPrice('0.122', 0n)).toThrow(RangeError)
    expect(() => atomicRoundedUp(priceOf(unitPrice('0.122', 1n), -1n))).toThrow(RangeError)
  })
})
