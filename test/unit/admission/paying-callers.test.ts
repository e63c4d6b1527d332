import type { FastifyRequest } from 'fastify'
import { privateKeyToAccount } from 'viem/accounts'
import { beforeAll, describe, expect, it } from 'vitest'
import { createPermit2Hash } from '#shared/adapters/chain/signing/permit2-message.ts'
import { recoverSigner } from '#shared/adapters/chain/signing/secp256k1.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { sealChallengeToken } from '#shared/payment/challenge-token.ts'
import { createPayingCallers } from '../../../api/admission/paying-callers.ts'
import { signWitness } from '../../support/payer/sign-authorization.ts'

const SECRETS = ['a secret of the tests that is long enough'] as const
const PAYER = privateKeyToAccount(`0x${'11'.repeat(32)}`)
const OTHER = privateKeyToAccount(`0x${'22'.repeat(32)}`)
const address = (digit: string) => `0x${digit.repeat(40)}` as const

const permit2Hash = createPermit2Hash(8453)
let signedByChecks = 0
const isSignedByPayer = (authorization: Authorization) => {
  signedByChecks += 1
  return recoverSigner(permit2Hash(authorization), authorization.signature) === authorization.payer
}

const terms = {
  token: address('1'),
  amount: 5034n,
  spender: address('2'),
  nonce: 7n,
  deadline: 4_000_000_000n,
  to: address('3'),
  facilitator: address('4'),
  validAfter: 0n,
}
const challenge = (idempotencyKey: string) =>
  sealChallengeToken(
    { idempotencyKey, requestDigest: 'd', quotedMaximum: atomicAmount(5034n), expiresAt: new Date(0) },
    SECRETS,
  )

let signature: string
let otherSignature: string
beforeAll(async () => {
  signature = await signWitness(PAYER, terms)
  otherSignature = await signWitness(OTHER, terms)
})
/** Returns a request with a payment of PAYER for the challenge of its key, with changes. */
function requestWith(changes: { token?: unknown; signature?: string; nonce?: string; header?: string } = {}) {
  const payment = {
    x402Version: 2,
    accepted: {
      scheme: 'upto',
      network: 'eip155:8453',
      amount: '5034',
      asset: terms.token,
      payTo: terms.to,
      maxTimeoutSeconds: 900,
      extra: { challenge: 'token' in changes ? changes.token : challenge('key') },
    },
    payload: {
      signature: changes.signature ?? signature,
      permit2Authorization: {
        from: PAYER.address,
        permitted: { token: terms.token, amount: '5034' },
        spender: terms.spender,
        nonce: changes.nonce ?? '7',
        deadline: '4000000000',
        witness: { to: terms.to, facilitator: terms.facilitator, validAfter: '0' },
      },
    },
  }
  const header = changes.header ?? Buffer.from(JSON.stringify(payment)).toString('base64')
  return { headers: { 'x-idempotency-key': 'key', 'payment-signature': header } } as unknown as FastifyRequest
}

const callers = (known: boolean, refused = false) =>
  createPayingCallers({
    challengeSecrets: SECRETS,
    isSignedByPayer,
    isRefused: () => refused,
    isKnown: (payer) => known && payer === PAYER.address.toLowerCase(),
  })
const judge = (request: FastifyRequest, { known = true, refused = false } = {}) => {
  const { isPaying, isKnownPayer } = callers(known, refused)
  return [isPaying(request), isKnownPayer(request)]
}

describe('which requests count as paying', () => {
  it('counts a payment that its payer signed for a challenge of this service and this key', () => {
    expect(judge(requestWith())).toEqual([true, true])
    expect(judge(requestWith(), { known: false })).toEqual([true, false])
  })

  it('does not count a genuine challenge with a signature that is not of the named payer', () => {
    for (const forged of [otherSignature, `0x${'ab'.repeat(65)}`, '0x00', `${signature}00`])
      expect(judge(requestWith({ signature: forged }))).toEqual([false, false])
    expect(judge(requestWith({ nonce: '8' }))).toEqual([false, false])
  })

  it('does not count a genuine signature with a forged challenge, or one of another key', () => {
    for (const token of [undefined, 5, 'forged', challenge('other')])
      expect(judge(requestWith({ token }))).toEqual([false, false])
  })

  it('does not count junk, or no payment at all', () => {
    expect(judge(requestWith({ header: 'junk' }))).toEqual([false, false])
    expect(judge({ headers: { 'x-idempotency-key': 'key' } } as unknown as FastifyRequest)).toEqual([false, false])
  })

  it('does not count a payment that the chain recently refused', () => {
    expect(judge(requestWith(), { refused: true })).toEqual([false, false])
  })

  it('recovers the signer once per request', () => {
    const { isPaying, isKnownPayer } = callers(true)
    const request = requestWith()
    const before = signedByChecks
    expect([isPaying(request), isKnownPayer(request), isPaying(request)]).toEqual([true, true, true])
    expect(signedByChecks - before).toBe(1)
  })
})
