import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatUsdc, parseUsdc } from '../../../../client/budget/usdc.ts'

describe('amounts of USDC', () => {
  it('an amount that is rendered and parsed is the same', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), (atomic) => parseUsdc(formatUsdc(atomic)) === atomic),
    )
  })

  it.each(['', '-1', '1e3', '0.0000001', '.5', '1.', ' 1', '0x1', '1,5', 'NaN'])('%j is not an amount', (text) => {
    expect(() => parseUsdc(text)).toThrow(RangeError)
  })
})
