import { describe, expect, it } from 'vitest'
import { isAllowanceSufficient } from '#shared/payment/allowance-permit.ts'

describe('an allowance', () => {
  it('suffices for the value of a permit, or for all that the owner has, and never when it is zero', () => {
    const reading = { permitNonce: 0n, balance: 50n }
    expect(isAllowanceSufficient({ ...reading, allowance: 100n }, 100n)).toBe(true)
    expect(isAllowanceSufficient({ ...reading, allowance: 50n }, 100n)).toBe(true)
    expect(isAllowanceSufficient({ ...reading, allowance: 49n }, 100n)).toBe(false)
    expect(isAllowanceSufficient({ ...reading, allowance: 0n, balance: 0n }, 0n)).toBe(false)
  })
})
