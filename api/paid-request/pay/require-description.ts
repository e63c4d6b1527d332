import { AppError } from '#shared/errors/app-error.ts'
import type { CurrentBinding } from '#shared/ledger/acceptance/bind-key.ts'
import type { MeasuredAudio } from '#shared/operations/operation.ts'
import type { ChallengeSecrets } from '#shared/payment/challenge-secrets.ts'
import { openChallengeToken } from '#shared/payment/challenge-token.ts'
import type { PaymentHeader } from '#shared/payment/x402-wire.ts'
import { describedDigest, type PaidRequest } from '../quote/bind-quote.ts'
import { readAuthorization, type SignatureContext } from './read-authorization.ts'

/**
 * Throws `audio_claim_mismatch` (402), which names what differs, when the payment answers the challenge for a recording
 * that its caller described, and the one that was sent is another. The challenge of the refusal has the price of the
 * recording itself. Throws for a payment that is also wrong in another way what `readAuthorization` throws.
 */
export function requireDescription(
  context: SignatureContext,
  paymentHeader: PaymentHeader,
  paidRequest: PaidRequest,
  binding: CurrentBinding | null,
): void {
  const { recording } = paidRequest.effectiveRequest
  if (!binding?.description || !recording) return
  const requestDigest = describedDigest(binding, paidRequest)
  if (requestDigest === null) return
  const described = { ...paidRequest, requestDigest }
  if (!isIssuedFor(paymentHeader, described, context.challengeSecrets)) return
  readAuthorization(context, paymentHeader, described)
  throw new AppError('audio_claim_mismatch', {
    message: `The recording is not the one that was priced: ${differences(binding.description.audio, recording.audio)}. Nothing was charged. This challenge has the price of the recording that was sent; sign it and send the same request again.`,
  })
}

function isIssuedFor(
  { decoded }: PaymentHeader,
  subject: { readonly idempotencyKey: string; readonly requestDigest: string },
  challengeSecrets: ChallengeSecrets,
): boolean {
  if (decoded.outcome !== 'decoded') return false
  const opened = openChallengeToken(decoded.payment.accepted.extra?.['challenge'], subject, challengeSecrets)
  return opened.outcome === 'genuine' && opened.matchesRequest
}

/** Names every fact that differs, since a client may have computed several of them in a wrong way. */
function differences(described: MeasuredAudio, inspected: MeasuredAudio): string {
  const facts = [
    ['sha256', described.sha256, inspected.sha256],
    ['bytes', described.bytes, inspected.bytes],
    ['duration_ms', described.durationMs, inspected.durationMs],
  ] as const
  return facts
    .filter(([, described, measured]) => described !== measured)
    .map(([name, described, measured]) => `${name} is ${measured}, not ${described}`)
    .join(', ')
}
