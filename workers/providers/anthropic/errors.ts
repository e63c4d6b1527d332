import { failureWithoutAnswer, rejected, retryAfter, unavailable, unknownOutcome } from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import type { ProviderFailure } from '../provider.ts'
import { errorWire } from './wire.ts'

/** Refusals of the request itself, before any work; a 413 even comes from the edge before the API. */
const inputRefusals: ReadonlySet<number> = new Set([400, 413, 422])

/** Refusals that lie with the key, the account or the moment; another deployment may accept the same input. */
const deploymentRefusals: ReadonlySet<number> = new Set([401, 402, 403, 404, 429])

/** Account trouble that comes as a 400 `invalid_request_error` and can be told apart by its message only. */
const accountMessage = /credit balance|usage limits?|spend limit|organization has been disabled/i

/**
 * Turns every exchange that is not a 200 into a failure.
 *
 * The vendor documents its 4xx as refusals. It promises nothing about 5xx, neither that no work was done nor that none is
 * billed; of 529 it says that the API is overloaded, and that the same error also ends answers that have begun
 * (platform.claude.com/docs/en/api/errors, …/build-with-claude/streaming "Error events"). So 529, all other 5xx, redirects,
 * 408 and 409 are ambiguous. The API has no idempotency key.
 */
export function failureOf(exchange: HttpOutcome): ProviderFailure {
  if (exchange.outcome !== 'response') return failureWithoutAnswer(exchange)
  const { status, headers } = exchange
  const { type, requestId, ofAccount } = readError(exchange.bytes)
  const reason = type === undefined ? `HTTP ${status}` : `HTTP ${status} ${type}`
  const vendorRequestId = requestIdOf(headers) ?? requestId
  const known = {
    ...(vendorRequestId === undefined ? {} : { vendorRequestId }),
    ...retryAfter(headers),
  }
  if (deploymentRefusals.has(status)) return { ...unavailable(reason), ...known }
  if (inputRefusals.has(status)) return { ...(ofAccount ? unavailable(reason) : rejected(reason)), ...known }
  return { ...unknownOutcome(reason), ...known }
}

/** The vendor's name of the exchange (platform.claude.com/docs/en/api/errors, "Request id"). */
export function requestIdOf(headers: Headers): string | undefined {
  const id = headers.get('request-id')
  return id !== null && /^[A-Za-z0-9_.-]{1,128}$/.test(id) ? id : undefined
}

function readError(bytes: Uint8Array): { type?: string; requestId?: string; ofAccount: boolean } {
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    // A proxy in between answers with HTML or nothing; the status carries the meaning.
    return { ofAccount: false }
  }
  const parsed = errorWire.safeParse(body)
  if (!parsed.success) return { ofAccount: false }
  const { error, request_id: requestId } = parsed.data
  return {
    ...(typeof error.type === 'string' ? { type: error.type } : {}),
    ...(typeof requestId === 'string' ? { requestId } : {}),
    ofAccount: accountMessage.test(error.message ?? ''),
  }
}
