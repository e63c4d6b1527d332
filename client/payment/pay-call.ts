import { TooManyRefused } from '../budget/budget-exceeded.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import type { HttpAnswer } from '../wire/http-answer.ts'
import { NoAnswer } from '../wire/no-answer.ts'
import { readServiceError, ServiceError } from '../wire/service-error.ts'
import { authorize } from './authorize.ts'
import { conclude, requireResult } from './conclude.ts'
import { joinCalls } from './join-calls.ts'
import type { PaidAnswer, PaidCall, PaymentContext } from './paid-call.ts'
import { RetrySchedule, wait } from './retry-schedule.ts'
import { allowedSilence, sendCall } from './send-call.ts'
import type { SignedPayment } from './sign-payment.ts'

/** Refusals of a payment that a new signature of the same wallet can cure. */
const CURED_BY_SIGNING: ReadonlySet<string> = new Set([
  'payment_required',
  'challenge_expired',
  'fresh_signature_required',
  'audio_claim_mismatch',
  'payment_nonce_used',
  'settlement_failed',
  'permit2_allowance_required',
])
/** Answers that something between client and service has damaged or replaced: the next one may be whole. */
const DAMAGED: ReadonlySet<string> = new Set(['not_the_service', 'answer_damaged'])
/** A service that refuses as many signatures of one call in turn is not asked again. */
const MOST_SIGNATURES = 4

/** The state of one call between its exchanges. */
interface Progress {
  payment: SignedPayment | null
  /** Whether a request with this payment may have been accepted without an answer. */
  isAmbiguous: boolean
  signatures: number
  /** How many payments were refused for want of an allowance. */
  allowanceRefusals: number
  /** Whether a larger allowance was asked for because other calls have reserved the present one. */
  isWidened: boolean
  /** The price that the call began with: a later challenge must not exceed it. */
  agreed: bigint | undefined
  readonly schedule: RetrySchedule
  /** How often the paid call was sent without any answer. */
  unanswered: number
}

/**
 * Makes a paid call: every payment of the client goes through here. It is charged at most once per key, however often it
 * is repeated, by this process or a later one; equal calls at the same time are one. Throws `FareboxError`, which states
 * what happened to the money.
 */
export async function payCall(context: PaymentContext, call: PaidCall): Promise<PaidAnswer> {
  return await joinCalls(context.journal, call, async () => {
    const paid = await payOnce(context, call)
    return (await context.verify?.(paid, call)) ?? paid
  })
}

async function payOnce(context: PaymentContext, call: PaidCall): Promise<PaidAnswer> {
  const payment = earlierPayment(context, call)
  const progress: Progress = {
    payment,
    isAmbiguous: true,
    signatures: 0,
    allowanceRefusals: 0,
    isWidened: false,
    agreed: call.quotedMaximum ?? payment?.maximum,
    schedule: new RetrySchedule(call.patienceMs, context.now),
    unanswered: 0,
  }
  try {
    recordIntent(context, call)
    for (;;) {
      const paid = await advance(context, call, progress)
      if (paid !== null) return paid
    }
  } catch (error) {
    if (error instanceof FareboxError) error.key = call.key
    throw error
  }
}

/** Sends the call once and prepares the next exchange, or returns the answer. */
async function advance(context: PaymentContext, call: PaidCall, progress: Progress): Promise<PaidAnswer | null> {
  const { payment } = progress
  let answer: HttpAnswer
  try {
    answer = await sendCall(context, call, payment, allowedSilence(context, call, progress))
    if (answer.status >= 200 && answer.status < 300) {
      requireResult(answer, payment, call)
      context.cover.noteChanged()
      return conclude(context, call, answer, payment)
    }
  } catch (error) {
    if (!(error instanceof FareboxError)) throw error
    // An error with a payment but without money is the body's own: nothing was sent.
    const wasSent = payment !== null && error.money !== 'none'
    if (!wasSent && !progress.isAmbiguous) dropPayment(context, call, progress, { status: 0, code: error.code })
    progress.isAmbiguous ||= wasSent
    if (payment !== null && !wasSent && progress.isAmbiguous) {
      // The body can no longer be sent, but an earlier request may have been accepted.
      const { code, problem, advice } = error
      throw new FareboxError({ code, problem, advice, money: 'unknown' })
    }
    const isUnanswered = error instanceof NoAnswer
    if (isUnanswered && payment !== null) progress.unanswered += 1
    const isLost = isUnanswered || error.code === 'connection_lost'
    if (!isLost && !(payment !== null && DAMAGED.has(error.code))) throw error
    // It was waited for long enough already.
    await waitOrThrow(call, progress, error, isUnanswered ? 0 : undefined)
    return null
  }
  const error = readServiceError(answer, payment !== null)
  if (isChallenge(answer, error)) await answerChallenge(context, call, progress, answer, error)
  else await handleError(context, call, progress, error)
  return null
}

async function answerChallenge(
  context: PaymentContext,
  call: PaidCall,
  progress: Progress,
  answer: HttpAnswer,
  error: ServiceError,
): Promise<void> {
  dropPayment(context, call, progress, error)
  if (!CURED_BY_SIGNING.has(error.code) || progress.signatures >= MOST_SIGNATURES) throw error
  const isForAllowance = error.code === 'permit2_allowance_required'
  if (isForAllowance) {
    // The pause is for the same payment. The next one has an allowance, or brings a permit.
    context.cover.noteMissing()
    progress.allowanceRefusals += 1
  } else if (error.retryAfterMs !== undefined) await waitOrThrow(call, progress, error, error.retryAfterMs)
  const payment = await authorizeInTime(context, call, progress, answer).catch((failure: unknown) => {
    // That the service does not tell about allowances is not what stands between the call and its result.
    throw isForAllowance && failure instanceof ServiceError ? error : failure
  })
  if (payment === null) return
  progress.payment = payment
  progress.agreed ??= payment.maximum
  progress.isAmbiguous = false
  progress.signatures += 1
}

/** Returns `null` after a wait, when the service first has to let go of payments that it refused. */
async function authorizeInTime(
  context: PaymentContext,
  call: PaidCall,
  progress: Progress,
  answer: HttpAnswer,
): Promise<SignedPayment | null> {
  try {
    return await authorize(context, { ...call, quotedMaximum: progress.agreed }, answer, {
      isRepeated: progress.allowanceRefusals > 1,
      signal: call.signal,
    })
  } catch (error) {
    if (!(error instanceof TooManyRefused)) throw error
    await waitOrThrow(call, progress, error, error.until - context.now())
    return null
  }
}

async function handleError(
  context: PaymentContext,
  call: PaidCall,
  progress: Progress,
  error: ServiceError,
): Promise<void> {
  if (error.money !== 'none') progress.isAmbiguous = true
  // A refusal at the door says nothing about an earlier request with the same payment.
  const isConclusive = error.money === 'none' && (error.retry !== 'same_request' || !progress.isAmbiguous)
  if (error.retry === 'never') {
    if (isConclusive) dropPayment(context, call, progress, error)
    throw error
  }
  if (error.retry === 'new_payment' && error.money === 'none') {
    dropPayment(context, call, progress, error)
    // The signature itself was not refused; waiting for other payments may take many.
    progress.signatures = 0
  }
  if (error.code === 'permit_already_used') context.cover.noteChanged()
  if (error.code === 'funds_reserved') {
    const widened = await widenOnce(context, call, progress)
    if (widened === 'by_approval') return
    // What was not accepted before cannot be charged, so another signature may take its place.
    if (widened === 'by_permit' && isConclusive) return dropPayment(context, call, progress, error)
  }
  try {
    await waitOrThrow(call, progress, error, error.retryAfterMs)
  } catch (givenUp) {
    if (isConclusive) dropPayment(context, call, progress, error)
    throw givenUp
  }
}

/**
 * Returns whether the allowance suffices beside what other calls had reserved: then the same payment is worth sending again, or
 * one that brings a permit.
 */
async function widenOnce({ cover }: PaymentContext, { signal }: PaidCall, progress: Progress) {
  if (progress.isWidened) return 'no'
  progress.isWidened = true
  // Without it the call waits for the others.
  return await cover.widen(signal).catch(() => 'no' as const)
}

/** Ends the reservation of a payment that the service will not use. */
function dropPayment(
  { journal }: PaymentContext,
  { key }: PaidCall,
  progress: Progress,
  { status, code }: Pick<ServiceError, 'status' | 'code'>,
): void {
  if (progress.payment === null) return
  progress.payment = null
  journal.append({ phase: 'refused', key, status, code })
}

async function waitOrThrow(
  { signal, onWait }: PaidCall,
  { schedule }: Progress,
  error: FareboxError,
  askedMs: number | undefined,
): Promise<void> {
  const waitMs = signal?.aborted === true ? null : schedule.next(askedMs)
  if (waitMs === null) throw error
  onWait?.(error, waitMs)
  // An interrupted wait ends with the error that was waited for.
  await wait(waitMs, signal).catch(() => {
    throw error
  })
}

function isChallenge({ status, headers }: HttpAnswer, { money }: ServiceError): boolean {
  return (status === 402 || status === 412) && headers.has('payment-required') && money === 'none'
}

/** Returns the payment that an earlier process signed for this call, while it can be settled. */
function earlierPayment({ journal, now, payer }: PaymentContext, { key, identity }: PaidCall): SignedPayment | null {
  const attempt = journal.attempts.get(key)
  if (!attempt?.payment || attempt.identity !== identity || attempt.payer !== payer) return null
  if (attempt.open === null || attempt.open.until <= now()) return null
  return { header: attempt.payment, maximum: attempt.open.maximum, deadline: attempt.open.until }
}

function recordIntent({ journal, payer }: PaymentContext, { key, url, identity, purpose, model }: PaidCall): void {
  const { origin, pathname } = new URL(url)
  journal.append({ phase: 'intended', key, origin, method: 'POST', path: pathname, identity, purpose, payer, model })
}
