import { describe, expect, it } from 'vitest'
import { facilitatorOf } from '#shared/chain/allowance/facilitator-of.ts'
import type { PermitConfirmation, PermitEvidence } from '#shared/chain/allowance/permit-submitter.ts'
import type { ClaimedPermit, SignedPermit } from '#shared/ledger/allowances/claim-allowances.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { type AllowancePermit, isAllowanceSufficient } from '#shared/payment/allowance-permit.ts'
import { judgePermit } from '../../workers/allowances/judge-permit.ts'
import { type AllowanceDependencies, createAllowanceRunner } from '../../workers/allowances/run-allowances.ts'

const PERMIT: AllowancePermit = { owner: '0x01', value: 100n, deadline: 1000n, nonce: 3n, signature: '0x02' }
const SIGNED: SignedPermit = {
  account: { network: 'eip155:8453', facilitator: '0x03' },
  accountNonce: 7n,
  transactions: [{ hash: '0xa', raw: '0x', sender: '0x1111', accountNonce: 7n }],
  fillers: [],
  isAbandoned: false,
}
const MINED = {
  blockNumber: 20n,
  blockHash: '0xb',
  gas: { gasUsed: 1n, effectiveGasPrice: 2n, cost: atomicAmount(1n) },
  costWei: 2n,
} as const
const UNUSED: Extract<PermitEvidence, { outcome: 'read' }> = {
  outcome: 'read',
  accountNonceCount: 7n,
  allowance: 0n,
  permitNonce: 3n,
  balance: 500n,
  block: 20n,
  chainTime: 900n,
}
const judge = (
  confirmation: PermitConfirmation,
  evidence: Partial<typeof UNUSED> | null = {},
  signed: Partial<SignedPermit> = {},
) =>
  judgePermit(PERMIT, { ...SIGNED, ...signed }, [{ hash: '0xa', confirmation }], evidence && { ...UNUSED, ...evidence })

describe('the allowances of a round', () => {
  it('a permit that is claimed while the process stops is handed back, not signed', async () => {
    const claimed = Promise.withResolvers<readonly ClaimedPermit[]>()
    const calls: string[] = []
    const runner = createAllowanceRunner({
      allowanceStore: {
        claimAllowances: () => claimed.promise,
        releaseAllowance: async ({ allowanceId }: ClaimedPermit, delayMs: number) => {
          calls.push(`released ${allowanceId} for ${delayMs} ms`)
          return 'written'
        },
      },
      allowances: {
        readAllowance: async () => {
          calls.push('read')
          return { outcome: 'unreachable', cause: null }
        },
      },
      leaseMs: 1000,
      logger: { info: () => undefined, warn: () => undefined, error: () => undefined },
    } as unknown as AllowanceDependencies)
    runner.wake()
    const stopped = runner.stop().then(() => calls.push('stopped'))
    claimed.resolve([{ allowanceId: 'one', permit: {}, signed: null, ageMs: 0 } as ClaimedPermit])
    await stopped
    await runner.settled()
    expect(calls).toEqual(['released one for 0 ms', 'stopped'])
  })
})

describe('the verdict on a signed permit', () => {
  it('is granted by its own transaction, without further evidence', () => {
    expect(judge({ outcome: 'confirmed', ...MINED }, null)).toEqual({
      verdict: 'granted',
      granted: { by: 'own_transaction', mined: { transaction: '0xa', ...MINED } },
    })
  })

  it.each([
    ['pending', { outcome: 'pending' }, {}],
    ['unreachable', { outcome: 'unreachable', cause: null }, { accountNonceCount: 9n }],
    ['reverted, and the evidence is of an earlier block', { outcome: 'reverted', ...MINED }, { block: 19n }],
    ['reverted, and there is no evidence', { outcome: 'reverted', ...MINED }, null],
    ['missing although its permit is used', { outcome: 'pending' }, { accountNonceCount: 8n, permitNonce: 4n }],
  ] as const)('is open while the transaction is %s', (_, confirmation, evidence) => {
    expect(judge(confirmation, evidence)).toEqual({ verdict: 'open' })
  })

  it('is a failure when the transaction reverted and the allowance does not suffice', () => {
    expect(judge({ outcome: 'reverted', ...MINED }, { permitNonce: 4n, allowance: 99n })).toMatchObject({
      verdict: 'failed',
      failure: { code: 'permit_reverted' },
      mined: { costWei: 2n },
    })
  })

  it.each([
    ['the permit’s value', { allowance: 100n }],
    ['everything that the owner has', { allowance: 60n, balance: 60n }],
  ])('is granted elsewhere when the transaction reverted and Permit2 may take %s', (_, evidence) => {
    expect(judge({ outcome: 'reverted', ...MINED }, evidence)).toMatchObject({
      verdict: 'granted',
      granted: { by: 'other_submission', blockNumber: 20n, mined: { costWei: 2n } },
    })
  })

  it('blames the fees when the account nonce of an abandoned permit was filled', () => {
    expect(judge({ outcome: 'event_missing', ...MINED }, {}, { isAbandoned: true })).toMatchObject({
      verdict: 'failed',
      failure: { code: 'gas_unavailable' },
    })
  })

  it('asks for another account nonce when its own is used and its permit is not', () => {
    expect(judge({ outcome: 'pending' }, { accountNonceCount: 8n })).toEqual({ verdict: 'nonce_used_elsewhere' })
  })
})

describe('an allowance', () => {
  it('suffices for the value of a permit, or for all that the owner has, and never when it is zero', () => {
    const reading = { permitNonce: 0n, balance: 50n }
    expect(isAllowanceSufficient({ ...reading, allowance: 100n }, 100n)).toBe(true)
    expect(isAllowanceSufficient({ ...reading, allowance: 50n }, 100n)).toBe(true)
    expect(isAllowanceSufficient({ ...reading, allowance: 49n }, 100n)).toBe(false)
    expect(isAllowanceSufficient({ ...reading, allowance: 0n, balance: 0n }, 0n)).toBe(false)
  })
})

describe('the settlement key of an owner’s permits', () => {
  const KEYS = ['0x0B', '0x0a', '0x0c'] as const

  it('is the same for any order and spelling of the configured keys', () => {
    const owner = '0xffffffffffffffffffffffffffffffffffffff02'
    expect(facilitatorOf(owner, KEYS)).toBe(
      facilitatorOf(owner.toUpperCase().replace('X', 'x') as `0x${string}`, ['0x0c', '0x0A', '0x0b']),
    )
  })

  it('is each of the keys for some owners', () => {
    expect(new Set(['0x01', '0x02', '0x03'].map((owner) => facilitatorOf(owner as `0x${string}`, KEYS))).size).toBe(3)
  })

  it('is none without keys', () => {
    expect(() => facilitatorOf('0x01', [])).toThrow('no settlement key')
  })
})
