import type { PaidCall, PaymentContext } from './paid-call.ts'
import type { SignedPayment } from './sign-payment.ts'

const PRICE_WITHIN_MS = 30_000
const ANSWER_WITHIN_MS = 45_000
/** Services hold a call for 280 s unless their operator says otherwise, and Node's fetch ends one of 300 s. */
export const LONGEST_SILENCE_MS = 290_000

interface SentCall {
  readonly payment: SignedPayment | null
  /** How often it was sent with a payment and without any answer. */
  readonly unanswered: number
}

/**
 * Returns how long nothing may move before the call is sent again. The service computes a price within seconds. It
 * answers a paid call when the work is done, at the latest when it has held the connection for its maximum; the same
 * payment, sent again earlier, takes part in the same work. So the first silence is short, and each one twice as long.
 */
export function allowedSilence(
  { now }: Pick<PaymentContext, 'now'>,
  { answerWithinMs }: Pick<PaidCall, 'answerWithinMs'>,
  { payment, unanswered }: SentCall,
): number {
  if (payment === null) return PRICE_WITHIN_MS
  const allowed = (answerWithinMs ?? ANSWER_WITHIN_MS) * 2 ** unanswered
  const untilDeadline = Math.max(payment.deadline - now(), ANSWER_WITHIN_MS)
  return Math.min(allowed, untilDeadline, LONGEST_SILENCE_MS)
}
