import { randomBytes } from 'node:crypto'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'

type Hex = `0x${string}`

export const NETWORK = 'eip155:8453'
const USDC = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'

/** Returns a random address in lower case. */
export function randomAddress(): Hex {
  return `0x${randomBytes(20).toString('hex')}`
}

/** Returns an authorization of a new payer. The signature is random bytes, which the ledger does not check. */
export function testAuthorization(overrides: Partial<Authorization> = {}): Authorization {
  return {
    network: NETWORK,
    asset: USDC,
    payer: randomAddress(),
    payTo: '0x1111111111111111111111111111111111111111',
    facilitator: '0x2222222222222222222222222222222222222222',
    spender: '0x4020a4f3b7b90cca423b9fabcc0ce57c6c240002',
    authorizedMaximum: atomicAmount(5034n),
    nonce: BigInt(`0x${randomBytes(32).toString('hex')}`),
    deadline: inTenMinutes(),
    validAfter: 0n,
    signature: `0x${randomBytes(65).toString('hex')}`,
    gasSponsoring: null,
    ...overrides,
  }
}

/** Returns a permit of `payer` with this EIP-2612 nonce. */
export function testPermit(payer: Hex, nonce: bigint): NonNullable<Authorization['gasSponsoring']> {
  return {
    from: payer,
    asset: USDC,
    spender: '0x000000000022d473030f116ddee9f6b43ac78ba3',
    amount: 5034n,
    nonce,
    deadline: inTenMinutes(),
    signature: `0x${randomBytes(65).toString('hex')}`,
    version: '1',
  }
}

function inTenMinutes(): bigint {
  return BigInt(Math.floor(Date.now() / 1000) + 600)
}
