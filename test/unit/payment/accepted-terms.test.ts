import { describe, expect, it } from 'vitest'
import { operations } from '#shared/operations/registry.ts'
import { sealChallengeToken } from '#shared/payment/challenge-token.ts'
import type { SignedPayment } from '#shared/payment/x402-wire.ts'
import {
  type AuthorizationDependencies,
  readAuthorization,
} from '../../../api/paid-request/payment/read-authorization.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'

const AUTHORIZATION = testAuthorization()
const { network, asset, payTo, spender, facilitator, authorizedMaximum } = AUTHORIZATION
const [OTHER_RECIPIENT, OTHER_FACILITATOR, STRANGER] = [
  `0x${'c3'.repeat(20)}`,
  `0x${'d4'.repeat(20)}`,
  `0x${'e5'.repeat(20)}`,
] as const
const [OLD_SECRET, NEW_SECRET] = ['the secret before', 'the secret afterwards']
const [operation] = operations
if (!operation) throw new Error('there is no operation')
const SUBJECT = { operation, idempotencyKey: 'a key', requestDigest: 'd'.repeat(64) }

const DEPENDENCIES = {
  terms: {
    network,
    asset,
    spender,
    payTo,
    acceptedRecipients: [payTo, OTHER_RECIPIENT],
    facilitators: [facilitator],
    acceptedFacilitators: [facilitator, OTHER_FACILITATOR],
    maxTimeoutSeconds: 900,
  } as unknown as AuthorizationDependencies['terms'],
  publicBaseUrl: 'https://farebox.example',
  challengeSecrets: [NEW_SECRET, OLD_SECRET],
  verifier: { isSignedByPayer: () => true } as unknown as AuthorizationDependencies['verifier'],
} satisfies AuthorizationDependencies

interface Changes {
  readonly signedFor?: `0x${string}`
  readonly acceptedFor?: `0x${string}`
  readonly facilitator?: `0x${string}`
  readonly secret?: string
}

/** Reads a payment that answers a challenge of this service but for the changes. */
function read({ signedFor = payTo, acceptedFor = signedFor, secret = NEW_SECRET, ...changes }: Changes = {}) {
  const { payer, nonce, deadline, validAfter, signature } = AUTHORIZATION
  const claims = { ...SUBJECT, quotedMaximum: authorizedMaximum, expiresAt: new Date(Date.now() + 60_000) }
  const payment = {
    accepted: {
      network,
      asset,
      payTo: acceptedFor,
      amount: authorizedMaximum.toString(),
      extra: { challenge: sealChallengeToken(claims, [secret]) },
    },
    payload: {
      signature,
      permit2Authorization: {
        from: payer,
        permitted: { token: asset, amount: authorizedMaximum },
        spender,
        nonce,
        deadline,
        witness: { to: signedFor, facilitator: changes.facilitator ?? facilitator, validAfter },
      },
    },
    resourceUrl: null,
    gasSponsoring: null,
  } as unknown as SignedPayment
  return readAuthorization(DEPENDENCIES, { decoded: { outcome: 'decoded', payment } } as never, SUBJECT).authorization
}

describe('while a key is replaced', () => {
  it('accepts payments that were signed for either recipient, and for no other', () => {
    expect(read().payTo).toBe(payTo)
    expect(read({ signedFor: OTHER_RECIPIENT }).payTo).toBe(OTHER_RECIPIENT)
    expect(() => read({ signedFor: STRANGER })).toThrow(expect.objectContaining({ code: 'payment_recipient_mismatch' }))
  })

  it('refuses a payment whose signed recipient is not the one that it repeats from the challenge', () => {
    for (const [signedFor, acceptedFor] of [
      [payTo, OTHER_RECIPIENT],
      [OTHER_RECIPIENT, payTo],
      [payTo, STRANGER],
    ] as const)
      expect(() => read({ signedFor, acceptedFor })).toThrow(
        expect.objectContaining({ code: 'payment_recipient_mismatch' }),
      )
  })

  it('accepts payments for a settlement key that no challenge names, and for no unknown one', () => {
    expect(read({ facilitator: OTHER_FACILITATOR }).facilitator).toBe(OTHER_FACILITATOR)
    expect(() => read({ facilitator: STRANGER })).toThrow(
      expect.objectContaining({ code: 'payment_facilitator_mismatch' }),
    )
  })

  it('accepts payments for challenges under either secret, and under no other', () => {
    expect(read({ secret: OLD_SECRET }).payTo).toBe(payTo)
    expect(() => read({ secret: 'a forged secret' })).toThrow(
      expect.objectContaining({ code: 'payment_terms_mismatch' }),
    )
  })
})
