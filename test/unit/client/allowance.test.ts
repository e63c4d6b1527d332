import { PERMIT2_ADDRESS as PUBLISHED_PERMIT2 } from '@x402/evm'
import { describe, expect, it } from 'vitest'
import { PERMIT2_ADDRESS, permitMessage } from '../../../client/allowance/allowance-terms.ts'
import { asRefusal, refusalOf } from '../../../client/allowance/approval-refused.ts'
import {
  type AllowanceState,
  allowanceState,
  isSufficient,
  UNLIMITED,
} from '../../../client/allowance/read-allowance.ts'
import type { AllowanceStatus } from '../../../client/wire/schemas.ts'
import { readServiceError } from '../../../client/wire/service-error.ts'

const OWNER = `0x${'a'.repeat(40)}`
const ASSET = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'
const NOW = Date.parse('2026-11-22T00:00:00Z')
const DEADLINE = String(NOW / 1000 + 3600)
const expected = { terms: { network: 'eip155:8453', asset: ASSET }, owner: OWNER, now: NOW }
const status = (
  changes: Partial<AllowanceStatus> = {},
  domain: object = {},
  message: object = {},
): AllowanceStatus => ({
  object: 'allowance_status',
  network: 'eip155:8453',
  asset: ASSET,
  owner: OWNER,
  spender: PERMIT2_ADDRESS,
  allowance: '0',
  balance_usdc_atomic: '1000000',
  permit_nonce: '3',
  block: 1,
  pays_without_permit: false,
  maximum_without_permit: '0',
  stored_permit: null,
  storing: {
    available: true,
    reason: null,
    message: null,
    minimum_value: '100000',
    minimum_deadline_seconds: 300,
  },
  wallet: { has_code: false, may_pay: true, message: null },
  approval: null,
  typed_data: {
    domain: { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: ASSET, ...domain },
    types: { Permit: [{ name: 'anything', type: 'address' }] },
    primaryType: 'Permit',
    message: { owner: OWNER, spender: PERMIT2_ADDRESS, value: '1', nonce: '3', deadline: DEADLINE, ...message },
  },
  ...changes,
})
const stateOf = (code: string): AllowanceState => ({
  owner: '0xa',
  spender: '0xb',
  allowance: 0n,
  balance: 50_000n,
  isApproved: false,
  storing: { isAvailable: false, code, message: 'The service’s own words.', minimumValue: 100_000n },
})
const CASES = [
  ['owner_has_code', /has code/, /transaction of the wallet’s own\.$/],
  ['owner_balance_too_low', /has 0\.05 USDC.* from 0\.1 USDC on/, /^Add USDC to the wallet, then approve again\.$/],
  ['permits_not_stored', /stores no permits/, /^Approve Permit2 for USDC in a transaction of your own/],
  ['another_code', /The service’s own words\./, /^Approve Permit2/],
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

describe('the permit that is signed for an approval', () => {
  it('is about the pinned asset, this wallet, Permit2 and the wanted value, whatever types the service names', () => {
    expect(permitMessage(status(), 5n, expected)).toMatchObject({
      domain: { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: ASSET },
      types: {
        Permit: [{ name: 'owner' }, { name: 'spender' }, { name: 'value' }, { name: 'nonce' }, { name: 'deadline' }],
      },
      message: { owner: OWNER, spender: PUBLISHED_PERMIT2, value: 5n, nonce: 3n, deadline: BigInt(DEADLINE) },
    })
  })

  it.each<[string, AllowanceStatus]>([
    ['network', status({ network: 'eip155:1' as never })],
    ['asset', status({ asset: `0x${'9'.repeat(40)}` })],
    ['owner', status({ owner: `0x${'9'.repeat(40)}` })],
    ['spender', status({ spender: `0x${'9'.repeat(40)}` })],
    ['chain id', status({}, { chainId: 1 })],
    ['contract', status({}, { verifyingContract: `0x${'9'.repeat(40)}` })],
    ['nonce', status({ permit_nonce: '-1' })],
    ['deadline', status({}, {}, { deadline: 'soon' })],
    ['deadline', status({}, {}, { deadline: String(NOW / 1000 + 86_401) })],
  ])('another %s is refused and named', (term, changed) => {
    expect(() => permitMessage(changed, 5n, expected)).toThrow(
      expect.objectContaining({
        code: 'challenge_refused',
        differences: expect.arrayContaining([expect.objectContaining({ term })]),
      }),
    )
  })
})

describe('an allowance', () => {
  it.each([
    [0n, 0n, UNLIMITED, false],
    [UNLIMITED - 5_000_000n, 0n, UNLIMITED, true],
    [1_000_000n, 1_000_000n, UNLIMITED, true],
    [999_999n, 1_000_000n, UNLIMITED, false],
    [999_999n, 1_000_000n, 500_000n, true],
  ])('of %s with a balance of %s suffices for %s: %s', (allowance, balance, wanted, suffices) => {
    expect(isSufficient({ allowance, balance }, wanted)).toBe(suffices)
  })
})

describe('what a service says of an allowance', () => {
  it.each([
    ['0', '700000', 700_000n],
    ['700001', '700000', 700_001n],
    ['0', null, 0n],
  ])('is %s on chain or a stored permit of %s: %s', (allowance, value, expected) => {
    const stored = value === null ? null : { value, nonce: '3', deadline: DEADLINE }
    expect(allowanceState(status({ allowance, stored_permit: stored })).allowance).toBe(expected)
  })
})

describe('an approval that the service does not keep', () => {
  it.each(CASES)('%s says what is wrong, that nothing was charged, and what to do', (code, problem, advice) => {
    const refusal = refusalOf(stateOf(code))
    expect(refusal).toMatchObject({ code, money: 'none' })
    expect(refusal.problem).toMatch(problem)
    expect(refusal.advice).toMatch(advice)
    expect(refusal.message).toContain('Nothing was charged.')
  })

  it('an answer to the permit says the same, and any other error stays what it is', () => {
    expect(asRefusal(answer('permits_not_stored'))).toMatchObject({
      name: 'ApprovalRefused',
      code: 'permits_not_stored',
    })
    const other = answer('rate_limited')
    expect(asRefusal(other)).toBe(other)
  })
})
