import { describe, expect, it } from 'vitest'
import { asRefusal, refusalOf } from '../../../../client/allowance/approval-refused.ts'
import type { AllowanceState } from '../../../../client/allowance/read-allowance.ts'
import { readServiceError } from '../../../../client/wire/service-error.ts'

const stateOf = (code: string, retryAfterMs: number | null): AllowanceState => ({
  owner: '0xa',
  spender: '0xb',
  allowance: 0n,
  balance: 50_000n,
  isApproved: false,
  sponsoring: { isAvailable: false, code, message: 'The service’s own words.', retryAfterMs, minimumValue: 100_000n },
})

const CASES = [
  ['owner_has_code', null, /has code/, /^Pay from an account without code\.$/],
  [
    'owner_balance_too_low',
    null,
    /has 0\.05 USDC.* from 0\.1 USDC on/,
    /^Add USDC to the wallet, then approve again\.$/,
  ],
  ['owner_allowance_limit', 80_000_000, /once a day/, /^Approve again in 23 h; otherwise approve Permit2/],
  ['sponsored_gas_limit', 600_000, /what it pays for permits a day/, /^Approve again in 10 min; otherwise/],
  ['sponsoring_disabled', null, /pays for no approvals/, /^Approve Permit2 for USDC in a transaction of your own/],
  ['another_code', null, /The service’s own words\./, /^Approve Permit2/],
] as const

const answer = (code: string) =>
  readServiceError(
    {
      status: 429,
      headers: new Headers({ 'retry-after': '7200' }),
      body: new TextEncoder().encode(
        JSON.stringify({ type: 'error', error: { code, message: 'No.', payment: 'none', retry: 'same_request' } }),
      ),
    },
    false,
  )

describe('an approval that the service does not pay for', () => {
  it.each(CASES)(
    '%s says what is wrong, that nothing was charged, and what to do',
    (code, retryAfterMs, problem, advice) => {
      const refusal = refusalOf(stateOf(code, retryAfterMs))
      expect(refusal).toMatchObject({ code, money: 'none', retryAfterMs })
      expect(refusal.problem).toMatch(problem)
      expect(refusal.advice).toMatch(advice)
      expect(refusal.message).toContain('Nothing was charged.')
    },
  )

  it('an answer to the permit says the same with its Retry-After, and any other error stays what it is', () => {
    const limited = asRefusal(answer('owner_allowance_limit'))
    expect(limited).toMatchObject({ name: 'ApprovalRefused', retryAfterMs: 7_200_000 })
    const other = answer('rate_limited')
    expect(asRefusal(other)).toBe(other)
  })
})
