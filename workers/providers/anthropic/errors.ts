import { failureWithoutResponse, rejected, retryAfter, unavailable, unknownOutcome } from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import type { ProviderFailure } from '../provider.ts'
import { errorWire } from './wire.ts'

/** Statuses that reject the request itself, before any work; a 413 even comes from the edge in front of the API. */
const INPUT_REJECTIONS: ReadonlySet<number> = new Set([400, 413, 422])

/** Statuses caused by the key, the account or the load; another deployment may accept the same input. */
const DEPLOYMENT_REJECTIONS: ReadonlySet<number> = new Set([401, 402, 403, 404, 429])

/** Account problems that arrive as a 400 `invalid_request_error` and are recognizable only by their message. */
const ACCOUNT_MESSAGE = /credit balance|usage limits?|spend limit|organization has been disabled/i

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
  const { type, requestId, isAccountProblem } = readError(exchange.bytes)
  const reason = type === undefined ? `HTTP ${status}` : `HTTP ${status} ${type}`
  const vendorRequestId = requestIdOf(headers) ?? requestId
  const known = {
    ...(vendorRequestId === undefined ? {} : { vendorRequestId }),
    ...retryAfter(headers),
  }
  if (DEPLOYMENT_REJECTIONS.has(status)) return { ...unavailable(reason), ...known }
  if (INPUT_REJECTIONS.has(status)) return { ...(isAccountProblem ? unavailable(reason) : rejected(reason)), ...known }
  return { ...unknownOutcome(reason), ...known }
}

/** Reads the vendor's id of the exchange (platform.claude.com/docs/en/api/errors, "Request id"). */
export function requestIdOf(headers: Headers): string | undefined {
  const id = headers.get('request-id')
  return id !== null && /^[A-Za-z0-9_.-]{1,128}$/.test(id) ? id : undefined
}

function readError(bytes: Uint8Array): { type?: string; requestId?: string; isAccountProblem: boolean } {
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    // A proxy responded with HTML or nothing; the status decides.
    return { isAccountProblem: false }
  }
  const parsed = errorWire.safeParse(body)
  if (!parsed.success) return { isAccountProblem: false }
  const { error, request_id: requestId } = parsed.data
  return {
    ...(typeof error.type === 'string' ? { type: error.type } : {}),
    ...(typeof requestId === 'string' ? { requestId } : {}),
    isAccountProblem: ACCOUNT_MESSAGE.test(error.message ?? ''),
  }
}
