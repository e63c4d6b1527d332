import type { FastifyRequest } from 'fastify'
import { isChallengeForKey } from '#shared/payment/challenge-token.ts'
import { readPaymentHeader } from '../request/headers.ts'

/** Returns whether a request carries a payment, judged by its headers only. */
export type PayingCheck = (request: FastifyRequest) => boolean

/**
 * Creates the check, which runs once per request. A request counts as paying when its payment answers a challenge that
 * this service issued for its key, so that junk in the header gains no priority. Signature and funds are verified
 * later.
 */
export function createPayingCheck(challengeSecret: string): PayingCheck {
  const known = new WeakMap<FastifyRequest, boolean>()
  return (request) => {
    const isPaying = known.get(request) ?? carriesPayment(request, challengeSecret)
    known.set(request, isPaying)
    return isPaying
  }
}

function carriesPayment({ headers }: FastifyRequest, challengeSecret: string): boolean {
  const header = readPaymentHeader(headers)
  if (header === null) return false
  const { decoded, identifier } = header
  const key = headers['x-idempotency-key'] ?? identifier
  if (decoded.outcome !== 'decoded' || typeof key !== 'string') return false
  return isChallengeForKey(decoded.payment.accepted.extra?.['challenge'], key, challengeSecret)
}
