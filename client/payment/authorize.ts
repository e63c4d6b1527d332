import { RESERVATION_MS } from '../budget/budget.ts'
import type { HttpAnswer } from '../wire/http-answer.ts'
import { type Challenge, readChallenge } from './challenge.ts'
import { checkChallenge } from './check-challenge.ts'
import type { AllowanceRefusal, PaidCall, PaymentContext } from './paid-call.ts'
import type { SignedPayment } from './sign-payment.ts'

/**
 * Checks and signs a challenge. Reservation and intent are durable before the signature, the signature is before it is
 * sent: a process that is killed at any point neither loses a payment nor pays another time.
 */
export async function authorize(
  context: PaymentContext,
  call: PaidCall,
  answer: HttpAnswer,
  refusal: AllowanceRefusal,
): Promise<SignedPayment> {
  const { journal, budget, now } = context
  const { key, group } = call
  const challenge = readChallenge(answer.headers.get('payment-required'))
  await checkAndPin(context, call, challenge, answer.headers)
  const { maximum } = challenge
  await budget.reserve(key, maximum, group)
  try {
    await journal.flush()
    const reservedAt = now()
    const payment = await context.sign(challenge, await context.cover.permit(challenge, refusal))
    // An approval, or a wallet that asks its owner, may take longer than the reservation lasts.
    if (now() - reservedAt >= RESERVATION_MS / 2) await budget.reserve(key, maximum, group)
    // The limits may have been lowered since. A signature that is not sent pays nothing.
    else budget.requireBudget(key, maximum, group)
    call.beforePayment?.(maximum)
    journal.append({
      phase: 'signed',
      key,
      maximum: payment.maximum.toString(),
      deadline: new Date(payment.deadline).toISOString(),
      payment: payment.header,
      ...(challenge.gasMinimum > 0n && { gasMinimum: challenge.gasMinimum.toString() }),
    })
    await journal.flush()
    return payment
  } catch (error) {
    releaseUnsigned(context, call)
    throw error
  }
}

async function checkAndPin(
  { pins, now }: PaymentContext,
  call: PaidCall,
  challenge: Challenge,
  headers: Headers,
): Promise<void> {
  const { url, quotedMaximum } = call
  const { origin } = new URL(url)
  const check = () =>
    checkChallenge(challenge, { terms: pins.termsOf(origin), url, quotedMaximum, now: now(), headers })
  check()
  await pins.pin(origin, challenge)
  // Another call may have pinned other terms in the meantime.
  check()
}

/** Ends the reservation of a payment that was not signed. One that was stays open: it may have been sent before. */
function releaseUnsigned({ journal }: PaymentContext, { key }: PaidCall): void {
  if (journal.attempts.get(key)?.open?.isSigned !== false) return
  try {
    journal.append({ phase: 'refused', key, status: 0, code: 'not_signed' })
  } catch {
    // The reservation ends by itself, and the error that caused this is the one to report.
  }
}
