import { failureWithoutResponse, rejected, retryAfter, unavailable, unknownOutcome } from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import type { ProviderFailure } from '../provider.ts'
import { unserviceable } from '../unserviceable.ts'
import { callId, readJson } from './connection.ts'
import { errorWire } from './wire.ts'

/** Statuses that reject the request itself, before any work. */
const INPUT_REJECTIONS: ReadonlySet<number> = new Set([400, 413, 415, 422])

/** Statuses caused by the account, the URL or the load; another deployment may accept the same input. */
const DEPLOYMENT_REJECTIONS: ReadonlySet<number> = new Set([401, 402, 403, 404, 429])

/** Problems of the deployment under status 400; OpenAI's images use `billing_hard_limit_reached`. */
const DEPLOYMENT_CODES: ReadonlySet<string> = new Set([
  'billing_hard_limit_reached',
  'insufficient_quota',
  'invalid_api_key',
  'model_not_found',
])

/** Codes for a field of this request that this server or model does not support although others do. */
const UNSUPPORTED_FIELD_CODES: ReadonlySet<string> = new Set([
  'unknown_parameter',
  'unsupported_parameter',
  'unsupported_value',
])

/**
 * Maps every exchange other than a 200 to a failure.
 *
 * OpenAI documents its 4xx as problems of request and account (developers.openai.com, Error codes) and promises nothing
 * about 5xx, so a 5xx, a redirect, 408, 409, 425 and a 2xx other than 200 are ambiguous. One 503 is definite:
 * llama.cpp's `unavailable_error`, sent while the model is loading, before the request is read
 * (tools/server/README.md).
 */
export function failureOf(exchange: HttpOutcome): ProviderFailure {
  if (exchange.outcome !== 'response') return failureWithoutResponse(exchange)
  const { status, headers } = exchange
  const parsed = errorWire.safeParse(readJson(exchange.bytes))
  const { code, type } = parsed.success ? parsed.data : {}
  const name = code ?? type
  const reason = name === undefined || name === null ? `HTTP ${status}` : `HTTP ${status} ${name}`
  const known = { ...callId(headers), ...retryAfter(headers) }
  const isLoading = status === 503 && type === 'unavailable_error'
  if (DEPLOYMENT_REJECTIONS.has(status) || isLoading) return { ...unavailable(reason), ...known }
  if (INPUT_REJECTIONS.has(status)) {
    if (DEPLOYMENT_CODES.has(code ?? '')) return { ...unavailable(reason), ...known }
    if (UNSUPPORTED_FIELD_CODES.has(code ?? '')) return { ...unserviceable(reason), ...known }
    return { ...rejected(reason), ...known }
  }
  return { ...unknownOutcome(reason), ...known }
}
