import type { BalanceReader } from '#shared/chain/reading/balance-reader.ts'
import type { ChainClock } from '#shared/chain/reading/chain-clock.ts'
import type { PayerFundsReader } from '#shared/chain/reading/payer-funds.ts'
import type { SettlementSearch } from '#shared/chain/reading/settlement-search.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { JobQueue } from '#shared/jobs/job-queue.ts'
import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { CurrentBinding } from '#shared/ledger/acceptance/bind-key.ts'
import type { PermitStore } from '#shared/ledger/allowances/permit-store.ts'
import type { ObjectStore, OpenedObjectStore } from '#shared/media/object-store.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { ChallengeSecrets } from '#shared/payment/challenge-secrets.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { ReceiptSecret } from '#shared/payment/receipt.ts'
import type { StatementSigner } from '#shared/payment/statement-signer.ts'
import type { PaymentHeader } from '#shared/payment/x402-wire.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import type { DecoderCaller } from '../request/audio/decoder-queue.ts'
import type { Mp3Inspector } from '../request/audio/inspect-mp3.ts'
import type { BodyArrival } from '../request/body-bytes.ts'
import type { Call } from '../request/call.ts'
import { readEffectiveRequest } from '../request/effective-request.ts'
import { readPaidHeaders } from '../request/headers.ts'
import type { Catalogs } from '../request/live-catalog.ts'
import type { RequestPreparer } from '../request/worker-threads/request-preparer.ts'
import {
  bindQuote,
  challengeOf,
  findBinding,
  findQuotedCatalog,
  type PaidRequest,
  requireQuotedSize,
} from './challenge/bind-quote.ts'
import { renderChallenge } from './challenge/challenge.ts'
import type { Listings } from './challenge/listing.ts'
import { requireDescription } from './challenge/require-description.ts'
import { acceptJob, findOwnJob, type ServingJob } from './job/accept-job.ts'
import type { OutcomeAwaiter } from './job/await-outcome.ts'
import { type PaidResponse, requestedMedia, respond, respondWithMedia } from './job/respond.ts'
import type { PayerMemory, RecentRefusal } from './payment/payer-memory.ts'
import type { PayerScreen } from './payment/payer-screen.ts'
import { acceptInTurn, type PermitTurns } from './payment/permit-turns.ts'
import { type PresentedPayment, readAuthorization } from './payment/read-authorization.ts'
import { requireUnsettled } from './payment/require-unsettled.ts'
import { type VerificationLimiter, verifyAuthorization } from './payment/verify-authorization.ts'

/** Everything that handling a paid request needs, from validation to the response. */
export interface PaidRequestDependencies {
  readonly catalogs: Catalogs
  readonly terms: PaymentTerms
  readonly challengeSecrets: ChallengeSecrets
  readonly receiptSecrets: readonly ReceiptSecret[]
  readonly signer: StatementSigner
  readonly publicBaseUrl: string
  readonly listings: Listings
  readonly mp3Inspector: Mp3Inspector
  readonly preparer: RequestPreparer
  readonly store: AcceptanceStore
  readonly queue: JobQueue
  readonly uploads: ObjectStore
  readonly checkObjects: OpenedObjectStore['check']
  readonly media: ObjectStore
  readonly verifier: AuthorizationVerifier
  readonly settlementSearch: SettlementSearch
  readonly chainClock: Pick<ChainClock, 'chainNow'>
  readonly requireFees: () => Promise<void>
  /** What settling a charge is expected to cost, where the minimum charge follows it; `null` otherwise. */
  readonly readChargeGas: (() => Promise<AtomicAmount>) | null
  readonly payerScreen: PayerScreen
  readonly payerFunds: PayerFundsReader
  readonly balances: BalanceReader
  readonly payers: PayerMemory
  readonly permitTurns: PermitTurns
  readonly limitVerifications: VerificationLimiter
  readonly permitStore: PermitStore
  readonly maximumOpenExposure: AtomicAmount
  readonly highestPrice: () => AtomicAmount
  readonly outcomes: OutcomeAwaiter
  readonly logger: Logger
  readonly tracer: Tracer
  readonly now: () => Date
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
  dependencies: PaidRequestDependencies,
  operation: AnyOperation,
  request: Call,
  caller: Caller,
): Promise<PaidResponse> {
  const { tracer } = dependencies
  const { idempotencyKey, paymentHeader } = readPaidHeaders(request.headers)
  const recent = paymentHeader && findRecentRefusal(dependencies, paymentHeader, idempotencyKey)
  const effectiveRequest = await tracer.stage('validate', async () => {
    const quotedCatalog = await findQuotedCatalog(dependencies, operation, idempotencyKey, {
      isPaid: paymentHeader !== null,
      knownQuote: recent?.challenge.quote ?? null,
    })
    return await readEffectiveRequest(dependencies, operation, request, { ...caller, quotedCatalog })
  })
  const paidRequest = { operation, idempotencyKey, requestDigest: effectiveRequest.requestDigest, effectiveRequest }
  if (paymentHeader === null) return await quoteAndChallenge(dependencies, paidRequest, request.id)

  if (recent?.challenge.requestDigest === paidRequest.requestDigest)
    return renderChallenge(dependencies, recent.challenge, request.id, recent.error)
  const binding = await findBinding(dependencies.store, paidRequest)
  try {
    requireDescription(dependencies, paymentHeader, paidRequest, binding)
    const payment = readAuthorization(dependencies, paymentHeader, paidRequest)
    const job = await findOrAcceptJob(dependencies, paidRequest, binding, payment, request, caller)
    tracer.describe({ jobId: job.jobId, payer: payment.authorization.payer })
    effectiveRequest.releaseContent()
    caller.releaseBody()
    const stopWaiting = caller.startWaiting({ jobId: job.jobId, payer: payment.authorization.payer })
    const outcome = await tracer.stage('hold', () => dependencies.outcomes.wait(job.jobId, stopWaiting, job))
    const response = respond(outcome, dependencies, operation, job.isNew)
    const media = requestedMedia(operation, request.headers.accept)
    return media ? await respondWithMedia(dependencies, response, media) : response
  } catch (error) {
    // A refused payment is answered with the challenge to sign instead; every other failure is answered as it is.
    if (!isRefusedPayment(error)) throw error
    await requireUnsettled(dependencies, paymentHeader, error, idempotencyKey, request)
    return await refuse(dependencies, paidRequest, paymentHeader, request.id, error)
  }
}

/** Prices the request, binds the key to it and renders the 402 to sign. */
export async function quoteAndChallenge(
  dependencies: Pick<
    PaidRequestDependencies,
    'catalogs' | 'readChargeGas' | 'terms' | 'store' | 'tracer' | 'challengeSecrets' | 'listings' | 'signer'
  >,
  paidRequest: PaidRequest,
  requestId: string,
): Promise<PaidResponse> {
  const challenge = await bindQuote(dependencies, paidRequest)
  return renderChallenge(dependencies, challenge, requestId)
}

/** Renders the challenge to sign instead of a refused payment, and remembers what the chain refused. */
async function refuse(
  dependencies: PaidRequestDependencies,
  paidRequest: PaidRequest,
  { decoded }: PaymentHeader,
  requestId: string,
  error: AppError,
): Promise<PaidResponse> {
  const challenge = await bindQuote(dependencies, paidRequest)
  const refusal =
    decoded.outcome === 'decoded'
      ? dependencies.payers.rememberRefusal(decoded.payment.authorization, error, challenge)
      : error
  return renderChallenge(dependencies, challenge, requestId, refusal)
}

/**
 * Returns the refusal of a payment that the chain recently refused for the same key, while its challenge is valid. For the
 * same request it is repeated without a statement or an RPC call, since presenting the payment again costs the caller
 * nothing.
 */
function findRecentRefusal(
  { payers, now }: Pick<PaidRequestDependencies, 'payers' | 'now'>,
  { decoded }: PaymentHeader,
  idempotencyKey: string,
): RecentRefusal | null {
  if (decoded.outcome !== 'decoded') return null
  const recent = payers.findRefusal(decoded.payment.authorization)
  const isSame =
    isRefusedPayment(recent?.error) &&
    recent?.challenge.idempotencyKey === idempotencyKey &&
    recent.challenge.expiresAt > now()
  return isSame ? recent : null
}

/** Returns the payer's job under this key; without one, verifies the payment and accepts a new job. */
async function findOrAcceptJob(
  dependencies: PaidRequestDependencies,
  paidRequest: PaidRequest,
  binding: CurrentBinding | null,
  payment: PresentedPayment,
  request: Call,
  caller: Pick<Caller, 'releaseBody' | 'startWaitingForTurn' | 'clientNetwork'>,
): Promise<ServingJob> {
  const findExisting = () => findOwnJob(dependencies.store, paidRequest.idempotencyKey, payment)
  const existing = await findExisting()
  if (existing !== null) return { jobId: existing, isNew: false }
  try {
    const releaseContent = () => {
      paidRequest.effectiveRequest.releaseContent()
      caller.releaseBody()
    }
    const signed = { ...payment, idempotencyKey: paidRequest.idempotencyKey, releaseContent }
    return await acceptInTurn(dependencies, { ...signed, startWaitingForTurn: caller.startWaitingForTurn }, () =>
      verifyAndAccept(dependencies, paidRequest, binding, payment, request, caller),
    )
  } catch (error) {
    // A duplicate of this request may have been settled during verification: then its own payment refuses this one.
    const isRefused = isRefusedPayment(error) || (error instanceof AppError && error.code === 'permit_already_used')
    const settledMeanwhile = isRefused ? await findExisting() : null
    if (settledMeanwhile === null) throw error
    return { jobId: settledMeanwhile, isNew: false }
  }
}

/** Accepts a job at the price of the challenge that the key is bound to, or of a new one when that has expired. */
async function verifyAndAccept(
  dependencies: PaidRequestDependencies,
  paidRequest: PaidRequest,
  binding: CurrentBinding | null,
  payment: PresentedPayment,
  request: Call,
  { clientNetwork }: Pick<Caller, 'clientNetwork'>,
): Promise<ServingJob> {
  const { tracer } = dependencies
  const { effectiveRequest } = paidRequest
  if (binding?.isLive) requireQuotedSize(paidRequest, binding.quote.terms)
  // A live quote stays good, whatever is offered by now.
  const challenge = binding?.isLive ? challengeOf(paidRequest, binding) : await bindQuote(dependencies, paidRequest)
  const verified = await tracer.stage('verify', () => verifyAuthorization(dependencies, payment, challenge, request))
  return await tracer.stage('accept', () =>
    acceptJob(dependencies, challenge, effectiveRequest, { ...verified, clientNetwork }),
  )
}

function isRefusedPayment(error: unknown): error is AppError {
  return error instanceof AppError && error.entry.kind === 'payment'
}
