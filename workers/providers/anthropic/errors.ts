import {
  failureOfStatus,
  failureWithoutResponse,
  rejectedByDeployment,
  retryAfter,
  unavailable,
  unknownOutcome,
  unserviceable,
  withheldOutput,
} from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import type { ProviderFailure } from '../provider.ts'
import { readJson } from '../wire-fields.ts'
import type { MessageStream } from './message-stream.ts'
import { errorWire } from './wire.ts'

/** Statuses that reject the request, before any work. */
const INPUT_REJECTIONS: ReadonlySet<number> = new Set([400, 422])

/**
 * Account problems that arrive as a 400 `invalid_request_error` and are recognizable only by their message. It addresses
 * the customer: messages about the request start with a path or quote it, and callers must not be able to write these.
 */
const ACCOUNT_MESSAGE =
  /^(?:you|your|this|the)\b[^.:"`]{0,80}\b(?:credit balance|usage limits?|spend limit|organization has been disabled)/i

/**
 * Messages of a 400 that comes after the model has begun to write, and may be billed: the answer was withheld, or could
 * not be completed by the schema.
 */
const STARTED_MESSAGE = /^(?:output blocked by content filtering|invalid request data$)/i

/**
 * Limits of a model, recognizable by the start of their message: what another model accepts, or what the deployment's
 * options configure.
 */
const MODEL_LIMIT_MESSAGES: readonly RegExp[] = [
  /^this model does not support /i,
  /^max_tokens: \d+ > \d+/,
  /^prompt is too long|^input length and `max_tokens` exceed context limit/,
  /^tool_choice: type .* not supported for this model|^thinking may not be enabled when tool_choice/i,
  /^["'`]?(?:temperature|top_p|top_k|(?:adaptive |extended )?thinking|output_config|effort)\b/,
]

/**
 * Maps every exchange other than a 200 to a failure.
 *
 * The vendor documents its 4xx as rejections. About 5xx it promises neither that no work was done nor that none is
 * billed; a 529 means that the API is overloaded, and the same error also ends responses that have started
 * (platform.claude.com/docs/en/api/errors, …/build-with-claude/streaming "Error events"). So 529, all other 5xx,
 * redirects, 408 and 409 are ambiguous. The API has no idempotency key.
 */
export function failureOf(exchange: HttpOutcome): ProviderFailure {
  if (exchange.outcome !== 'response') return failureWithoutResponse(exchange)
  const { status, headers } = exchange
  const { type, requestId, message = '' } = readError(exchange.bytes)
  const reason = type === undefined ? `HTTP ${status}` : `HTTP ${status} ${type}`
  const vendorRequestId = requestIdOf(headers) ?? requestId
  const known = {
    ...(vendorRequestId === undefined ? {} : { vendorRequestId }),
    ...retryAfter(headers),
  }
  const failure = failureOfStatus(status, reason)
  if (failure !== undefined) return { ...failure, ...known }
  if (INPUT_REJECTIONS.has(status)) return { ...rejectionOf(reason, message), ...known }
  return { ...unknownOutcome(reason), ...known }
}

function rejectionOf(reason: string, message: string): ProviderFailure {
  if (ACCOUNT_MESSAGE.test(message)) return unavailable(reason)
  if (STARTED_MESSAGE.test(message)) return withheldOutput(reason)
  const isModelLimit = MODEL_LIMIT_MESSAGES.some((limit) => limit.test(message))
  return isModelLimit ? unserviceable(reason) : rejectedByDeployment(reason)
}

/** The status that the vendor uses for each error type (platform.claude.com/docs/en/api/errors, "HTTP errors"). */
const STATUS_OF_TYPE: ReadonlyMap<string, number> = new Map([
  ['invalid_request_error', 400],
  ['authentication_error', 401],
  ['billing_error', 402],
  ['permission_error', 403],
  ['not_found_error', 404],
  ['request_too_large', 413],
  ['rate_limit_error', 429],
  ['api_error', 500],
  ['timeout_error', 504],
  ['overloaded_error', 529],
])

/**
 * Maps an error event of a stream to a failure. Before the model has started it means what the status of its type
 * means. Afterwards the output so far may be billed, whatever the error.
 */
export function failureOfEvent({ type, data, isAfterStart }: NonNullable<MessageStream['error']>): ProviderFailure {
  const status = STATUS_OF_TYPE.get(type)
  if (isAfterStart || status === undefined) return unknownOutcome(`HTTP 200 with the event ${type}`)
  const bytes = new TextEncoder().encode(data)
  return failureOf({ outcome: 'response', status, headers: new Headers(), bytes })
}

/** Reads the vendor's id of the exchange (platform.claude.com/docs/en/api/errors, "Request id"). */
export function requestIdOf(headers: Headers): string | undefined {
  const id = headers.get('request-id')
  return id !== null && /^[A-Za-z0-9_.-]{1,128}$/.test(id) ? id : undefined
}

interface ErrorFacts {
  readonly type?: string | undefined
  readonly requestId?: string | undefined
  readonly message?: string | undefined
}

function readError(bytes: Uint8Array): ErrorFacts {
  const parsed = errorWire.safeParse(readJson(bytes))
  // A proxy responded with HTML or nothing; the status decides.
  if (!parsed.success) return {}
  const { error, request_id: requestId } = parsed.data
  return { type: error.type, requestId: requestId ?? undefined, message: error.message }
}
