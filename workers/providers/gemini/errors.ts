import {
  failureOfStatus,
  failureWithoutResponse,
  rejectedByDeployment,
  retryAfter,
  unavailable,
  unknownOutcome,
  unserviceable,
} from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import type { ProviderFailure } from '../provider.ts'
import { readJson } from '../wire-fields.ts'
import type { AnswerStream } from './answer-stream.ts'
import { errorWire } from './wire.ts'

/** Statuses that reject the request, before any work. */
const INPUT_REJECTIONS: ReadonlySet<number> = new Set([400, 422])

/**
 * Limits of a model under status 400 that are recognizable only by the start of their message: what another model
 * accepts, or what the deployment's options configure.
 */
const MODEL_LIMIT_MESSAGES: readonly RegExp[] = [
  /^penalty is not enabled/i,
  /^(?:function calling|tool use) with a response mime type/i,
  /^requests ending with a model turn/i,
  /^function call is missing a thought_signature/i,
  /^(?:the )?thinking[ _]|^budget \d+ is invalid/i,
  /^unable to submit request because it has a maxOutputTokens value/i,
  /^the input token count/i,
]

/** The deployment's model does not write. Compared from the start, since messages about text quote the caller's names. */
const TEXT_SETUP_MESSAGE = /^the model does not support the requested response modalities/i

/** Faults in what this adapter sends with every image: the deployment's model does not draw, or not in this format. */
export const IMAGE_SETUP_MESSAGE = /^.{0,120}\b(?:response modalities|image ?(?:size|config)|aspect ?ratio)\b/i

/**
 * The vendor's server errors that are not billed, by status and name. A response of the same status without the
 * vendor's error name comes from a proxy, which does not know what the vendor did.
 */
const UNBILLED_SERVER_ERRORS: ReadonlyMap<number, string> = new Map([
  [500, 'INTERNAL'],
  [503, 'UNAVAILABLE'],
])

/**
 * Maps every exchange other than a 200 to a failure.
 *
 * "If your request fails with a 400 or 500 error, you won't be charged for the tokens used"
 * (ai.google.dev/gemini-api/docs/billing), and no result of a failed call is kept, so the vendor's own 500 and 503 are
 * definite. A 504 means that processing timed out; it, redirects, 408, 409 and unlisted statuses are ambiguous. Account
 * problems also arrive as 400: an invalid key with reason API_KEY_INVALID, and an unsupported region or missing billing
 * as FAILED_PRECONDITION (ai.google.dev/gemini-api/docs/troubleshooting). Limits of this model
 * arrive as 400 INVALID_ARGUMENT like an invalid input; the next deployment may accept it. A 413 is a limit of this vendor.
 */
export function failureOf(exchange: HttpOutcome, setupMessage = TEXT_SETUP_MESSAGE): ProviderFailure {
  if (exchange.outcome !== 'response') return failureWithoutResponse(exchange)
  const { status, headers } = exchange
  const { name, detail, retryDelaySeconds, message = '' } = readError(exchange.bytes)
  const reason = ['HTTP', status, name, detail].filter((word) => word !== undefined).join(' ')
  const known = {
    ...(retryDelaySeconds === undefined ? {} : { retryAfterSeconds: retryDelaySeconds }),
    ...retryAfter(headers),
  }
  const isDeploymentProblem = name === 'FAILED_PRECONDITION' || detail?.startsWith('API_KEY_') === true
  const failure = failureOfStatus(status, reason)
  if (failure !== undefined) return { ...failure, ...known }
  if (INPUT_REJECTIONS.has(status)) {
    if (isDeploymentProblem || setupMessage.test(message)) return { ...unavailable(reason), ...known }
    const isModelLimit = MODEL_LIMIT_MESSAGES.some((limit) => limit.test(message))
    return { ...(isModelLimit ? unserviceable(reason) : rejectedByDeployment(reason)), ...known }
  }
  const unbilled = name !== undefined && UNBILLED_SERVER_ERRORS.get(status) === name
  return { ...(unbilled ? unavailable(reason) : unknownOutcome(reason)), ...known }
}

/**
 * Maps an error event of a stream to a failure: as the same status without a stream, except after output, about which
 * the vendor's promise not to bill failed requests says nothing.
 */
export function failureOfEvent(error: NonNullable<AnswerStream['error']>): ProviderFailure {
  const bytes = new TextEncoder().encode(error.data)
  const failure = failureOf({ outcome: 'response', status: error.status, headers: new Headers(), bytes })
  return error.isAfterOutput ? unknownOutcome(`HTTP 200 with an error event after output, ${failure.reason}`) : failure
}

interface ErrorFacts {
  readonly name?: string | undefined
  readonly detail?: string | undefined
  readonly retryDelaySeconds?: number | undefined
  /** Quotes the request: it is compared, never kept. */
  readonly message?: string | undefined
}

function readError(bytes: Uint8Array): ErrorFacts {
  const parsed = errorWire.safeParse(readJson(bytes))
  // A proxy responded with HTML or nothing; the status decides.
  if (!parsed.success) return {}
  const { status: name, message, details = [] } = parsed.data.error
  const detail = details.find(({ reason }) => reason !== undefined)?.reason
  const delay = details.find(({ retryDelay }) => retryDelay !== undefined)?.retryDelay
  const seconds = /^(\d{1,5}(?:\.\d+)?)s$/.exec(delay ?? '')?.[1]
  return { name, detail, message, retryDelaySeconds: seconds === undefined ? undefined : Math.ceil(Number(seconds)) }
}
