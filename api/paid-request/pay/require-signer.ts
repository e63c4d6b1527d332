import type { FastifyRequest } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'
import type { PresentedPayment } from './read-authorization.ts'
import type { VerificationContext } from './verify-authorization.ts'

/**
 * Throws `payment_signature_invalid` unless the payer signed, before anything of theirs is returned for a payment that is
 * not verified again. The key of an account was recovered already; the wallet of any other is asked, at the cost of a
 * stranger. Throws `payment_network_unavailable` when it cannot be asked.
 */
export async function requireSigner(
  { verifier, limitVerifications }: Pick<VerificationContext, 'verifier' | 'limitVerifications'>,
  { authorization, isProven }: PresentedPayment,
  request: Pick<FastifyRequest, 'ip'>,
): Promise<void> {
  if (isProven) return
  const giveBack = limitVerifications(request)
  const answer = await verifier.askWallet(authorization)
  if (answer.outcome === 'unreachable') throw new AppError('payment_network_unavailable', { cause: answer.cause })
  if (answer.outcome === 'not_signed') throw new AppError('payment_signature_invalid')
  giveBack()
}
