import { AppError } from '#shared/errors/app-error.ts'
import type { KnownRequest } from '#shared/ledger/acceptance/find-known-request.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { PaymentHeader } from '#shared/payment/x402-wire.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import type { DecoderCaller } from '../request/audio/decoder-queue.ts'
import type { BodyArrival } from '../request/body-bytes.ts'
import type { Call } from '../request/call.ts'
import type { Requests } from '../request/effective-request.ts'
import { readPaidHeaders } from '../request/headers.ts'
import { findOwnJob, type ServingJob } from './accept/serve-payment.ts'
import type { PaidResponse } from './answer/respond.ts'
import type { Jobs } from './jobs.ts'
import { isRefusedPayment } from './pay/payer-memory.ts'
import type { PresentedPayment } from './pay/read-authorization.ts'
import type { Payments } from './payments.ts'
import { type PaidRequest, requireOwnKey } from './quote/bind-quote.ts'
import type { Quotes } from './quotes.ts'

/** Those who handle a paid request, from validation to the response. */
export interface PaidRequestHandlers {
  readonly requests: Requests
  readonly quotes: Quotes
  readonly payments: Payments
  readonly jobs: Jobs
  readonly tracer: Tracer
}

/** The connection that a paid request arrived on. */
export interface Caller extends DecoderCaller {
  /**
   * Called when the caller begins to wait for a job. The signal aborts when they have waited long enough, have
   * disconnected or cannot be kept waiting; the job continues in any case.
   */
  readonly startWaiting: (job: { readonly jobId: string; readonly payer: string }) => AbortSignal
  /**
   * Called when the caller begins to wait until the payer may use another permit. The signal aborts as that of
   * `startWaiting` does, and sooner when too many callers wait without work of their own.
   */
  readonly startWaitingForTurn: (payer: string) => AbortSignal
  /** The network that its losses are counted for. */
  readonly clientNetwork: string
  /** Follows the arrival of a form. */
  readonly arrival: BodyArrival
  /** Called when the request body is no longer needed in memory. */
  readonly releaseBody: () => void
}

/**
 * Handles one paid request, in the order of the calls below: validate, then either quote and challenge, or check the
 * payment, accept a job, wait for it and respond. Everything that can be rejected is rejected before money moves, and
 * no work starts before the payment is claimed.
 */
export async function handlePaidRequest(
  handlers: PaidRequestHandlers,
  operation: AnyOperation,
  call: Call,
  caller: Caller,
): Promise<PaidResponse> {
  const { requests, quotes, payments, jobs, tracer } = handlers
  const { idempotencyKey, paymentHeader } = readPaidHeaders(call.headers)
  const recent = paymentHeader && payments.findRecentRefusal(paymentHeader, idempotencyKey)
  const effectiveRequest = await tracer.stage('validate', async () => {
    const quotedCatalog = await quotes.findQuotedCatalog(operation, idempotencyKey, {
      isPaid: paymentHeader !== null,
      knownQuote: recent?.challenge.quote ?? null,
    })
    return await requests.readEffectiveRequest(operation, call, { ...caller, quotedCatalog })
  })
  const paidRequest = { operation, idempotencyKey, requestDigest: effectiveRequest.requestDigest, effectiveRequest }
  if (paymentHeader === null) return quotes.renderChallenge(await quotes.bindQuote(paidRequest), call.id)

  const known = await payments.findKnownRequest(paymentHeader, idempotencyKey)
  // Another API may have accepted since what this one refused.
  if (recent?.challenge.requestDigest === paidRequest.requestDigest && known.claim === null)
    return quotes.renderChallenge(recent.challenge, call.id, recent.error)
  requireOwnKey(known.binding, paidRequest)
  try {
    const payment = payments.readPayment(paymentHeader, paidRequest, known.binding)
    const job = await findOrAcceptJob(handlers, { paidRequest, paymentHeader, known, payment, call, caller })
    const served = { jobId: job.jobId, payer: payment.authorization.payer }
    tracer.describe(served)
    releaseContent({ paidRequest, caller })
    const stopWaiting = caller.startWaiting(served)
    const outcome = await tracer.stage('hold', () => jobs.awaitOutcome(job, stopWaiting))
    return await jobs.respond(outcome, { operation, isNew: job.isNew, accept: call.headers.accept })
  } catch (error) {
    // A refused payment is answered with the challenge to sign instead; every other failure is answered as it is.
    if (!isRefusedPayment(error)) throw error
    await payments.requireUnsettled(paymentHeader, error, idempotencyKey, call)
    const challenge = await quotes.bindQuote(paidRequest)
    return quotes.renderChallenge(challenge, call.id, payments.rememberRefusal(paymentHeader, error, challenge))
  }
}

/** A request with its payment. */
interface PaidCall {
  readonly paidRequest: PaidRequest
  readonly paymentHeader: PaymentHeader
  readonly known: KnownRequest
  readonly payment: PresentedPayment
  readonly call: Call
  readonly caller: Caller
}

/** Returns the payer's job under this key; without one, verifies the payment and accepts a new job. */
async function findOrAcceptJob(handlers: PaidRequestHandlers, paid: PaidCall): Promise<ServingJob> {
  const { jobs, payments } = handlers
  const { payment, call, caller } = paid
  const { idempotencyKey } = paid.paidRequest
  const existing = findOwnJob(paid.known, payment)
  if (existing !== null) {
    await payments.requireSigner(payment, call)
    return { jobId: existing, isNew: false }
  }
  try {
    const { startWaitingForTurn } = caller
    const signed = { ...payment, idempotencyKey, startWaitingForTurn, releaseContent: () => releaseContent(paid) }
    return await jobs.acceptInTurn(signed, () => verifyAndAccept(handlers, paid))
  } catch (error) {
    // A duplicate of this request may have been settled during verification: then its own payment refuses this one.
    const isRefused = isRefusedPayment(error) || (error instanceof AppError && error.code === 'permit_already_used')
    const known = isRefused ? await payments.findKnownRequest(paid.paymentHeader, idempotencyKey) : null
    const settledMeanwhile = known && findOwnJob(known, payment)
    if (settledMeanwhile === null) throw error
    await payments.requireSigner(payment, call)
    return { jobId: settledMeanwhile, isNew: false }
  }
}

/** Accepts a job at the price of the challenge that the key is bound to, or of a new one when that has expired. */
async function verifyAndAccept(
  { quotes, payments, jobs, tracer }: PaidRequestHandlers,
  { paidRequest, known, payment, call, caller: { clientNetwork } }: PaidCall,
): Promise<ServingJob> {
  const { binding, storedPermit } = known
  const challenge = await quotes.challengeToPay(paidRequest, binding)
  const presented = { ...payment, storedPermit }
  const verified = await tracer.stage('verify', () => payments.verifyAuthorization(presented, challenge, call))
  return await tracer.stage('accept', () =>
    jobs.servePayment(challenge, paidRequest.effectiveRequest, { ...verified, clientNetwork }),
  )
}

/** Frees what may be large: the connection may stay open for minutes after its last use. */
function releaseContent({ paidRequest, caller }: Pick<PaidCall, 'paidRequest' | 'caller'>): void {
  paidRequest.effectiveRequest.releaseContent()
  caller.releaseBody()
}
