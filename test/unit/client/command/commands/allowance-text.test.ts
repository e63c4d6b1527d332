import { maxUint256 } from 'viem'
import { describe, expect, it } from 'vitest'
import { allowanceText } from '../../../../../client/command/commands/calls/allowance-text.ts'

describe('the allowance', () => {
  it.each([
    ['without a limit: calls run in parallel', maxUint256, 5n],
    // Approvals without a limit shrink with use.
    ['without a limit: calls run in parallel', maxUint256 - 10n ** 12n, 5n],
    ['0.000005 USDC: calls run in parallel', 5n, 5n],
    ['0.000004 USDC: calls are paid one after the other; run farebox approve', 4n, 5n],
    ['none: calls are paid one after the other; run farebox approve', 0n, 0n],
  ])('reads %j', (text, allowance, balance) => {
    expect(allowanceText(allowance, balance)).toBe(text)
  })
})
