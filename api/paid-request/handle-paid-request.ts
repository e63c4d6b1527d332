import type { FastifyRequest } from 'fastify'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { JobQueue } from '#shared/jobs/job-queue.ts'
import type { AdmissionStore, PresentBinding } from '#shared/jobs/job-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { ChainClock } from '#shared/payment/chain-clock.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { PayerFundsReader } from '#shared/payment/payer-funds.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { ReceiptSecret } from '#shared/payment/receipt.ts'
import type { StatementSigner } from '#shared/payment/statement-signer.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import type { Mp3Inspector } from '../request/audio/inspect-mp3.ts'
import { type EffectiveRequest, readEffectiveRequest } from '../request/effective-request.ts'
import { readIdempotencyKey, readPaymentHeader } from '../request/headers.ts'
import { requireAvailable } from '../request/require-available.ts'
import type { RequestPreparer } from '../request/worker-threads/request-preparer.ts'
import { type Challenge, type ChallengeSubject, renderChallenge } from './challenge/challenge.ts'
import { acceptJob, type ServingJob } from './job/accept-job.ts'
import { asAudioBytes, wantsAudioBytes } from './job/audio-bytes.ts'
import type { OutcomeAwaiter } from './job/await-outcome.ts'
import { findOwnJob } from './job/find-own-job.ts'
import { type PaidAnswer, respond } from './job/respond.ts'
import { type PresentedPayment, readAuthorization } from './payment/read-authorization.ts'
import { verifyAuthorization } from './payment/verify-authorization.ts'

export interface PaidRequestDependencies {
  readonly catalog: Catalog
  readonly terms: PaymentTerms
  readonly challengeSecret: string
  readonly receiptSecrets: readonly ReceiptSecret[]
  readonly signer: StatementSigner
  readonly publicBaseUrl: string
  readonly mp3Inspector: Mp3Inspector
  readonly preparer: RequestPreparer
  readonly store: AdmissionStore
  readonly queue: JobQueue
  readonly uploads: ObjectStore
  readonly media: ObjectStore
  readonly verifier: AuthorizationVerifier
  readonly chainClock: Pick<ChainClock, 'chainNow'>
  readonly payerFunds: PayerFundsReader
  readonly maximumOpenExposure: AtomicAmount
  readonly outcomes: OutcomeAwaiter
  readonly logger: Logger
  readonly tracer: Tracer
  readonly now: () => Date
}

/** Who asks, and for how long he may be kept waiting. */
export interface Caller {
  /** Whether he brings a payment for a challenge of ours; it is not verified yet. */
  readonly isPaying: boolean
  /** Aborts when he has been held long enough or is gone; the job goes on either way. */
  readonly held: AbortSignal
  /** Told how much of a form has arrived. Throws `overloaded` when it is more than there is room for. */
  readonly onBytes: (arrivedBytes: number) => void
  /** Called when his request is not needed in memory any more. */
  readonly releaseBody: () => void
}

/**
 * THE FLOW of a paid request, top to bottom. The order of the checks is the contract's (decisions page): everything that
 * can be refused is refused before money, and money before work.
 */
export async function handlePaidRequest(
  dependencies: PaidRequestDependencies,
  operation: AnyOperation,
  request: FastifyRequest,
  caller: Caller,
): Promise<PaidAnswer> {
  const { tracer } = dependencies
  const idempotencyKey = readIdempotencyKey(request.headers)
  const effectiveRequest = await tracer.stage('validate', () =>
    readEffectiveRequest(dependencies, operation, request, caller),
  )
  const subject = { operation, idempotencyKey, requestDigest: effectiveRequest.requestDigest }
  const paymentHeader = readPaymentHeader(request.headers)
  if (paymentHeader === null)
    return renderChallenge(dependencies, await quoteAndBind(dependencies, subject, effectiveRequest), request.id)

  const binding = await findOwnBinding(dependencies.store, subject)
  try {
    const payment = await readAuthorization(dependencies, paymentHeader, subject)
    const { jobId, isNew } = await attachOrPay({
      findOwn: () => findOwnJob(dependencies.store, idempotencyKey, payment.authorization),
      pay: () => payForJob(dependencies, subject, binding, effectiveRequest, payment),
    })
    tracer.describe({ jobId, payer: payment.authorization.payer })
    effectiveRequest.letGo()
    caller.releaseBody()
    const outcome = await tracer.stage('hold', () => dependencies.outcomes.wait(jobId, caller.held, { isNew }))
    const answer = respond(outcome, dependencies, operation, isNew)
    return wantsAudioBytes(operation.id, request.headers.accept) ? await asAudioBytes(dependencies, answer) : answer
  } catch (error) {
    // A refused payment is answered with the challenge to sign instead; every other failure keeps its own answer.
    if (isRefusedPayment(error)) {
      const challenge = await quoteAndBind(dependencies, subject, effectiveRequest)
      return renderChallenge(dependencies, challenge, request.id, error)
    }
    throw error
  }
}

/** Throws `idempotency_key_reused` (409) when the key is bound to another request. */
async function findOwnBinding(
  store: Pick<AdmissionStore, 'findBinding'>,
  { idempotencyKey, requestDigest }: ChallengeSubject,
): Promise<PresentBinding | null> {
  const binding = await store.findBinding(idempotencyKey)
  if (binding && binding.requestDigest !== requestDigest)
    throw new AppError('idempotency_key_reused', { param: 'x-idempotency-key' })
  return binding
}

/** Prices the request and binds the key to it. Throws `idempotency_key_reused` (409) and `model_unavailable` (503). */
async function quoteAndBind(
  { catalog, terms, store, tracer }: PaidRequestDependencies,
  subject: ChallengeSubject,
  effectiveRequest: EffectiveRequest,
): Promise<Challenge> {
  const { idempotencyKey, requestDigest } = subject
  const binding = await tracer.stage('quote', async () =>
    store.bindKey({
      idempotencyKey,
      requestDigest,
      quote: await priceOwn({ catalog, store }, subject, effectiveRequest),
      lifetimeSeconds: terms.challengeLifetimeSeconds,
    }),
  )
  if (binding.outcome === 'other_request') throw new AppError('idempotency_key_reused', { param: 'x-idempotency-key' })
  return { ...subject, quote: binding.quote, expiresAt: binding.expiresAt }
}

/** The price. A key that is bound to another request is told of before the lack of one. */
async function priceOwn(
  { catalog, store }: Pick<PaidRequestDependencies, 'catalog' | 'store'>,
  subject: ChallengeSubject,
  { publicModel, quote }: EffectiveRequest,
): Promise<Quote<JsonValue>> {
  try {
    requireAvailable(catalog, subject.operation, publicModel)
    return quote()
  } catch (error) {
    await findOwnBinding(store, subject)
    throw error
  }
}

/**
 * The payer's own job under the key, or a new one. It is looked for again after a refusal: while the chain was asked about this
 * request a duplicate of it may have been settled, and then its own payment is what refuses it.
 */
async function attachOrPay({
  findOwn,
  pay,
}: {
  findOwn: () => Promise<string | null>
  pay: () => Promise<ServingJob>
}): Promise<ServingJob> {
  const own = await findOwn()
  if (own !== null) return { jobId: own, isNew: false }
  try {
    return await pay()
  } catch (error) {
    const paidMeanwhile = isRefusedPayment(error) ? await findOwn() : null
    if (paidMeanwhile === null) throw error
    return { jobId: paidMeanwhile, isNew: false }
  }
}

function isRefusedPayment(error: unknown): error is AppError {
  return error instanceof AppError && error.entry.kind === 'payment'
}

/** A new job for the presented payment, at the price it was challenged with while that challenge lives. */
async function payForJob(
  dependencies: PaidRequestDependencies,
  subject: ChallengeSubject,
  binding: PresentBinding | null,
  effectiveRequest: EffectiveRequest,
  payment: PresentedPayment,
): Promise<ServingJob> {
  requireAvailable(dependencies.catalog, subject.operation, effectiveRequest.publicModel)
  const challenge = binding?.isLive
    ? { ...subject, quote: binding.quote, expiresAt: binding.expiresAt }
    : await quoteAndBind(dependencies, subject, effectiveRequest)
  const { tracer } = dependencies
  const verified = await tracer.stage('verify', () => verifyAuthorization(dependencies, payment, challenge))
  return tracer.stage('accept', () => acceptJob(dependencies, challenge, effectiveRequest, verified))
}
