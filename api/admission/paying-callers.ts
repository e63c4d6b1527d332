import type { FastifyRequest } from 'fastify'
import { isChallengeForKey } from '#shared/payment/challenge-token.ts'
import { readPaymentHeader } from '../request/headers.ts'

/** Whether a request brings a payment, as far as its headers tell. */
export type PayingCheck = (request: FastifyRequest) => boolean

/**
 * A caller brings a payment when its challenge is one that we issued for the request's key: no other can pay here, and junk in
 * the header earns no favour. Whether it is signed and good for its amount is asked later. Looked at once a request.
 */
export function createPayingCheck(challengeSecret: string): PayingCheck {
  const known = new WeakMap<FastifyRequest, boolean>()
  return (request) => {
    const isPaying = known.get(request) ?? bringsPayment(request, challengeSecret)
    known.set(request, isPaying)
    return isPaying
  }
}

function bringsPayment({ headers }: FastifyRequest, challengeSecret: string): boolean {
  const header = readPaymentHeader(headers)
  if (header === null) return false
  const { decoded, identifier } = header
  const key = headers['x-idempotency-key'] ?? identifier
  if (decoded.outcome !== 'decoded' || typeof key !== 'string') return false
  return isChallengeForKey(decoded.payment.accepted.extra?.['challenge'], key, challengeSecret)
}
