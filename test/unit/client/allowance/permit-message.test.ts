import { PERMIT2_ADDRESS as PUBLISHED_PERMIT2 } from '@x402/evm'
import { describe, expect, it } from 'vitest'
import { PERMIT2_ADDRESS, permitMessage } from '../../../../client/allowance/allowance-terms.ts'
import { isSufficient, UNLIMITED } from '../../../../client/allowance/read-allowance.ts'
import type { AllowanceStatus } from '../../../../client/wire/schemas.ts'

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
  sponsoring: {
    available: true,
    reason: null,
    message: null,
    retry_after_seconds: null,
    minimum_value: '100000',
    minimum_deadline_seconds: 300,
  },
  typed_data: {
    domain: { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: ASSET, ...domain },
    types: { Permit: [{ name: 'anything', type: 'address' }] },
    primaryType: 'Permit',
    message: { owner: OWNER, spender: PERMIT2_ADDRESS, value: '1', nonce: '3', deadline: DEADLINE, ...message },
  },
  ...changes,
})

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
