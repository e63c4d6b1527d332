import { AppError } from '#shared/errors/app-error.ts'
import { ERROR_CODES } from '#shared/errors/error-codes.ts'
import type { JobOutcome, ReviewEnding } from '#shared/jobs/job.ts'
import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import { hashMediaToken } from '#shared/media/media.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import type { MediaResponse } from '#shared/operations/operation.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import { deliveryExtension } from '#shared/payment/offer-receipt.ts'
import { type ReceiptSecret, receiptToken } from '#shared/payment/receipt.ts'
import type { StatementSigner } from '#shared/payment/statement-signer.ts'
import { acceptQuality } from '../../request/headers.ts'
import { encodeHeader } from '../quote/challenge.ts'
import { resourceUrl } from '../quote/listing.ts'

/** The response of a paid route. A text `body` is sent unchanged, so that replays are equal byte for byte. */
export interface PaidResponse {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: unknown
  /** For metrics: the kind of response, or the code of the refusal. */
  readonly outcome: string
}

/** What results are answered with. */
export interface AnswerContext {
  readonly receiptSecrets: readonly ReceiptSecret[]
  readonly signer: StatementSigner
  readonly publicBaseUrl: string
  readonly store: AcceptanceStore
  readonly media: ObjectStore
}

/** Delay before a retry for work that outlasted the held connection. */
const RETRY_AFTER_SECONDS = 5

/**
 * Answers with the result of a completed job, as JSON or as the media that `accept` prefers; throws the `AppError` of any
 * other state. `isNew`: this request created the job.
 */
export async function respond(
  context: AnswerContext,
  outcome: JobOutcome,
  {
    operation,
    isNew,
    accept,
  }: { readonly operation: AnyOperation; readonly isNew: boolean; readonly accept?: string | undefined },
): Promise<PaidResponse> {
  const response = renderOutcome(context, outcome, operation, isNew)
  const media = requestedMedia(operation, accept)
  return media ? await respondWithMedia(context, response, media) : response
}

function renderOutcome(
  context: AnswerContext,
  outcome: JobOutcome,
  operation: AnyOperation,
  isNew: boolean,
): PaidResponse {
  switch (outcome.state) {
    case 'completed':
      return { ...renderResult(outcome, context, operation), outcome: isNew ? 'completed' : 'replayed' }
    case 'expired':
      throw new AppError('result_expired', { headers: { 'x-receipt-id': outcome.receiptId } })
    case 'failed':
    case 'settlement_failed':
      // The next payment is answered with the exact time.
      throw new AppError(
        outcome.failureCode,
        ERROR_CODES[outcome.failureCode].status === 429 ? { retryAfterSeconds: RETRY_AFTER_SECONDS } : {},
      )
    case 'review':
      throw new AppError('settlement_under_review')
    case 'resolved':
      throw resolvedError(outcome)
    case 're_served':
      return { ...renderReServed(outcome), outcome: 're_served' }
    case 're_serving_ended':
      throw new AppError('result_expired')
    case 'accepted':
    case 'generating':
      throw new AppError('request_in_progress', { retryAfterSeconds: RETRY_AFTER_SECONDS })
    case 'generated':
    case 'settling':
      throw new AppError('settlement_pending', { retryAfterSeconds: RETRY_AFTER_SECONDS })
  }
}

function renderResult(
  outcome: Extract<JobOutcome, { state: 'completed' }>,
  { receiptSecrets, signer, publicBaseUrl }: AnswerContext,
  operation: AnyOperation,
): Omit<PaidResponse, 'outcome'> {
  const { network, payer, transaction } = outcome.paymentResponse
  return {
    status: 200,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'payment-response': encodeHeader(
        JSON.stringify({
          ...outcome.paymentResponse,
          extensions: deliveryExtension(signer, {
            resourceUrl: resourceUrl(operation, publicBaseUrl),
            network,
            payer,
            transaction,
            issuedAt: outcome.receiptIssuedAt,
          }),
        }),
      ),
      ...receiptHeaders(outcome, receiptSecrets),
      'x-catalog-version': outcome.catalogVersion,
    },
    body: outcome.resultBody,
  }
}

/** The result without a payment: nothing proves a charge, so there is neither a settlement nor a receipt. */
function renderReServed({
  resultBody,
  catalogVersion,
}: Extract<JobOutcome, { state: 're_served' }>): Omit<PaidResponse, 'outcome'> {
  return {
    status: 200,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'x-resolution': 're_served',
      'x-catalog-version': catalogVersion,
    },
    body: resultBody,
  }
}

/** Derives the token from the secret that the receipt was issued under, which may have been rotated since. */
function receiptHeaders(
  { receiptId, receiptSecretId }: { receiptId: string; receiptSecretId: string },
  receiptSecrets: readonly ReceiptSecret[],
) {
  const secret = receiptSecrets.find(({ id }) => id === receiptSecretId)
  if (!secret) throw new Error(`the receipt secret ${receiptSecretId} is no longer configured`)
  return { 'x-receipt-id': receiptId, 'x-receipt-token': receiptToken(receiptId, secret) }
}

/** Returns the error that says how a person ended the payment of a call. */
export function resolvedError(ending: ReviewEnding): AppError {
  switch (ending.outcome) {
    case 'refunded':
      return new AppError('payment_refunded', {
        message: `The payment of this call was refunded in transaction ${ending.transaction}. The key stays with it; use a new key to make the call again.`,
      })
    case 'paid_outside':
      return new AppError('payment_resolved_outside')
    case 'written_off':
      return new AppError('payment_written_off')
  }
}

/**
 * Returns the operation's media response when the `Accept` header prefers it to JSON. JSON is preferred when both are
 * equal, and is the answer when the header accepts neither: the call is paid for.
 */
export function requestedMedia({ mediaResponse }: AnyOperation, accept: string | undefined): MediaResponse | null {
  if (!mediaResponse) return null
  const quality = Math.max(...mediaResponse.acceptedAs.map((type) => acceptQuality(accept, type)))
  return quality > acceptQuality(accept, 'application/json') ? mediaResponse : null
}

const FILE_EXPIRED =
  'The hosted file of this call has expired. Its JSON result is still available: repeat the same request with "Accept: application/json".'

/**
 * Replaces the JSON result with the media themselves; the other fields travel in headers. Throws `result_expired` (410)
 * for a hosted file past its expiry.
 */
async function respondWithMedia(
  { store, media }: AnswerContext,
  response: PaidResponse,
  mediaResponse: MediaResponse,
): Promise<PaidResponse> {
  const { url, headers: mediaHeaders } = mediaResponse.read(JSON.parse(String(response.body)))
  const found = await store.findMedia(hashMediaToken(url.slice(url.lastIndexOf('/') + 1)))
  // The receipt's token and the proof of settlement come with the result only; its id is no secret.
  const { 'x-receipt-id': receiptId } = response.headers
  const headers: Record<string, string> = receiptId === undefined ? {} : { 'x-receipt-id': receiptId }
  if (!found) throw new AppError('result_expired', { headers, message: FILE_EXPIRED })
  const bytes = await media.get(found.objectKey).catch((cause: unknown) => {
    throw new AppError('media_unavailable', { headers, cause })
  })
  if (!bytes) throw new AppError('media_unavailable', { headers })
  return {
    ...response,
    headers: { ...response.headers, ...mediaHeaders },
    body: Buffer.from(bytes),
  }
}
