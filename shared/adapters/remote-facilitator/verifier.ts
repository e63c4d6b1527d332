import { VerifyError } from '@x402/core/types'
import type { ChainVerifier } from '#shared/chain/verification/authorization-verifier.ts'
import { judgeWallet } from '#shared/chain/verification/judge-wallet.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier, Verification } from '#shared/payment/facilitator.ts'
import { createHttpClient, failureOf, type RemoteFacilitatorOptions } from './http-client.ts'
import { paymentPayload, paymentRequirements } from './payment-messages.ts'
import { loggableReason, refusalOf } from './refusals.ts'

/** The same as for calls to our own node: the payer is waiting. */
const VERIFY_TIMEOUT_MS = 5000

type RemoteVerdict =
  | { outcome: 'valid' }
  | { outcome: 'refused'; reason: string | undefined }
  | { outcome: 'unreachable'; cause: unknown }

/**
 * Creates a verifier that asks the remote facilitator, which is the one that must settle. The payer gets a refusal only
 * when it follows from the payment itself or our own verification on chain (`own`) agrees: a facilitator that cannot
 * reach its node reports an invalid signature, and the payer must not sign again for that. Whether the payer's account
 * may pay is asked from our own node.
 */
export function createRemoteVerifier(options: RemoteFacilitatorOptions, own: ChainVerifier): AuthorizationVerifier {
  const client = createHttpClient(options, VERIFY_TIMEOUT_MS)
  const ask = async (authorization: Authorization): Promise<RemoteVerdict> => {
    try {
      const requirements = paymentRequirements(authorization, authorization.authorizedMaximum)
      const { isValid, invalidReason } = await client.verify(paymentPayload(authorization), requirements)
      return isValid ? { outcome: 'valid' } : { outcome: 'refused', reason: invalidReason }
    } catch (cause) {
      // Some facilitators send refusals with a 4xx status. A 5xx proves nothing.
      if (cause instanceof VerifyError && cause.statusCode < 500)
        return { outcome: 'refused', reason: cause.invalidReason }
      return { outcome: 'unreachable', cause: failureOf(cause) }
    }
  }
  return {
    isSignedByPayer: (authorization) => own.isSignedByPayer(authorization),
    askWallet: (authorization) => own.askWallet(authorization),
    verify: async (authorization, amount): Promise<Verification> => {
      const [verdict, code] = await Promise.all([ask(authorization), own.checkWallet(authorization)])
      const signed = { signedBy: own.isSignedByPayer(authorization) }
      // The SDK's facilitator submits a permit whenever there is one, even if a lasting approval exists.
      const needsPermit = authorization.gasSponsoring !== null
      if (verdict.outcome === 'valid') return judgeWallet({ outcome: 'valid', needsPermit }, code, signed)
      if (verdict.outcome === 'unreachable') return judgeWallet(verdict, code, signed)
      const refusal = refusalOf(verdict.reason)
      if (refusal?.certain) return { outcome: 'refused', code: refusal.code }
      const verification = await own.verify(authorization, amount)
      if (verification.outcome !== 'valid') return verification
      const cause = new Error(
        `the facilitator refuses a payment that the chain accepts: ${loggableReason(verdict.reason)}`,
      )
      return { outcome: 'unreachable', cause }
    },
  }
}
