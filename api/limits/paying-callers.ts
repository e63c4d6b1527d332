import type { FastifyRequest } from 'fastify'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { ChallengeSecrets } from '#shared/payment/challenge-secrets.ts'
import { isChallengeForKey } from '#shared/payment/challenge-token.ts'
import { readPaymentHeader } from '../request/headers.ts'

/** A property of a request, judged by its headers only and without network calls. */
export type PayingCheck = (request: Pick<FastifyRequest, 'headers'>) => boolean

/** Decides which requests may use the rate and the capacity that are reserved for paying callers. */
export interface PayingCallers {
  /** Returns whether a request carries a payment that is worth verifying. */
  readonly isPaying: PayingCheck
  /** Returns whether it also names a payer whose last payment verified on chain. */
  readonly isKnownPayer: PayingCheck
}

interface Dependencies {
  readonly challengeSecrets: ChallengeSecrets
  /** Returns whether the key of the named payer signed the authorization. Computed locally. */
  readonly isSignedByKey: (authorization: Authorization) => boolean
  /** Returns whether the chain recently refused exactly this payment. */
  readonly isRefused: (authorization: Authorization) => boolean
  readonly isKnown: (payer: `0x${string}`) => boolean
}

/**
 * Creates the checks, which run once per request. A request counts as paying when its payment answers a challenge that
 * this service issued for its key, is signed by the key of the payer that it names, and was not recently refused. Junk in the
 * header and payments that cannot be settled therefore gain no priority, and neither does the signature of a contract
 * wallet, which costs a stranger no key. Funds are verified later.
 */
export function createPayingCallers(dependencies: Dependencies): PayingCallers {
  const judged = new WeakMap<object, { isPaying: boolean; isKnownPayer: boolean }>()
  const judge = (request: Pick<FastifyRequest, 'headers'>) => {
    const known = judged.get(request)
    if (known) return known
    const payer = findPayer(request, dependencies)
    const judgment = { isPaying: payer !== null, isKnownPayer: payer !== null && dependencies.isKnown(payer) }
    judged.set(request, judgment)
    return judgment
  }
  return {
    isPaying: (request) => judge(request).isPaying,
    isKnownPayer: (request) => judge(request).isKnownPayer,
  }
}

function findPayer(
  { headers }: Pick<FastifyRequest, 'headers'>,
  { challengeSecrets, isSignedByKey, isRefused }: Dependencies,
): `0x${string}` | null {
  const header = readPaymentHeader(headers)
  if (header === null) return null
  const { decoded, identifier } = header
  const key = headers['x-idempotency-key'] ?? identifier
  if (decoded.outcome !== 'decoded' || typeof key !== 'string') return null
  if (!isChallengeForKey(decoded.payment.accepted.extra?.['challenge'], key, challengeSecrets)) return null
  const { authorization } = decoded.payment
  return isSignedByKey(authorization) && !isRefused(authorization) ? authorization.payer : null
}
