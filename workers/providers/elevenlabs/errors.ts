import { failureWithoutResponse, rejected, retryAfter, unavailable, unknownOutcome } from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import type { ProviderFailure } from '../provider.ts'
import { errorWire } from './wire.ts'

/** Statuses that reject the request itself, before any work. */
const INPUT_REJECTIONS: ReadonlySet<number> = new Set([400, 413, 415, 422])

/** Statuses caused by the account, the URL or the load; another deployment may accept the same input. */
const DEPLOYMENT_REJECTIONS: ReadonlySet<number> = new Set([401, 402, 403, 404, 429])

/**
 * Account problems that the vendor also reports with status 400 (help.elevenlabs.io, "API - Error Code 400 or 401").
 */
const ACCOUNT_CODES: ReadonlySet<string> = new Set(['invalid_api_key', 'quota_exceeded'])

/**
 * Maps every exchange other than a 200 to a failure.
 *
 * The vendor documents its 4xx as problems with the request and promises nothing about 5xx
 * (elevenlabs.io/docs/eleven-api/resources/errors), so a 5xx, a redirect, 408, 409, 425 and a 2xx other than 200 are
 * ambiguous. The service has no idempotency key: an ambiguous call cannot be repeated safely.
 */
export function failureOf(exchange: HttpOutcome): ProviderFailure {
  if (exchange.outcome !== 'response') return failureWithoutResponse(exchange)
  const { status, headers } = exchange
  const { code, requestId } = errorTokens(exchange.bytes)
  const reason = code === undefined ? `HTTP ${status}` : `HTTP ${status} ${code}`
  const known = {
    ...(requestId === undefined ? {} : { vendorRequestId: requestId }),
    ...retryAfter(headers),
  }
  if (DEPLOYMENT_REJECTIONS.has(status)) return { ...unavailable(reason), ...known }
  if (INPUT_REJECTIONS.has(status)) {
    if (code !== undefined && ACCOUNT_CODES.has(code)) return { ...unavailable(reason), ...known }
    return { ...rejected(reason), ...known }
  }
  return { ...unknownOutcome(reason), ...known }
}

function errorTokens(bytes: Uint8Array): { code?: string; requestId?: string } {
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    // A proxy responded with HTML or nothing; the status decides.
    return {}
  }
  const parsed = errorWire.safeParse(body)
  if (!parsed.success) return {}
  const { detail } = parsed.data
  if (Array.isArray(detail)) {
    const first = detail[0]
    const field = first?.loc?.at(-1)
    if (first?.type === undefined) return {}
    return { code: typeof field === 'string' && /^[a-z_]{1,40}$/.test(field) ? `${first.type} ${field}` : first.type }
  }
  const code = detail.code ?? detail.status ?? detail.type
  return {
    ...(code === undefined ? {} : { code }),
    ...(detail.request_id === undefined ? {} : { requestId: detail.request_id }),
  }
}
