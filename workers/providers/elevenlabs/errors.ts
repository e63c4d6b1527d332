import {
  failureOfStatus,
  failureWithoutResponse,
  gone,
  misconfigured,
  rejected,
  rejectedByDeployment,
  retryAfter,
  unavailable,
  unknownOutcome,
  unserviceable,
} from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import type { ProviderFailure } from '../provider.ts'
import { readJson } from '../wire-fields.ts'
import { errorWire } from './wire.ts'

/** Statuses that reject the request, before any work. */
const REJECTIONS: ReadonlySet<number> = new Set([400, 401, 402, 403, 404, 405, 410, 413, 415, 422, 429])

/**
 * Problems of the account or the model, which every request meets. The vendor reports them with status 400 or 401
 * (help.elevenlabs.io, "API - Error Code 400 or 401").
 */
const ACCOUNT_CODE =
  /^(?:invalid_api_key|quota_exceeded|needs_authorization|missing_permissions|detected_unusual_activity|model_[a-z_]+)$/

/** Problems of one voice: it is unknown to the account, or its plan may not use it (`invalid_uid`). */
const VOICE_CODE = /^(?:voice_[a-z_]+|invalid_voice_id|invalid_uid)$/

/** Limits of this model or plan that others do not have. */
const LIMIT_CODE = /^(?:max_character_limit_exceeded|text_too_long|unsupported_language|file_too_large)$/

/** Content that violates a usage policy; it is not offered to another vendor. */
const POLICY_CODE = /^content_(?:policy|against_policy)/

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
  if (REJECTIONS.has(status)) return { ...rejectionOf(reason, status, code ?? ''), ...known }
  return { ...unknownOutcome(reason), ...known }
}

/** The code decides before the status: the vendor sends the same code with several of them. */
function rejectionOf(reason: string, status: number, code: string): ProviderFailure {
  if (status === 410) return gone(reason)
  if (ACCOUNT_CODE.test(code)) return unavailable(reason)
  if (VOICE_CODE.test(code)) return misconfigured(reason)
  if (LIMIT_CODE.test(code)) return unserviceable(reason)
  if (POLICY_CODE.test(code)) return rejected(reason)
  return failureOfStatus(status, reason) ?? rejectedByDeployment(reason)
}

function errorTokens(bytes: Uint8Array): { code?: string | undefined; requestId?: string | undefined } {
  const parsed = errorWire.safeParse(readJson(bytes))
  // A proxy responded with HTML or nothing; the status decides.
  if (!parsed.success) return {}
  const { detail } = parsed.data
  if (Array.isArray(detail)) {
    const first = detail[0]
    const field = first?.loc?.at(-1)
    if (first?.type === undefined) return {}
    return { code: typeof field === 'string' && /^[a-z_]{1,40}$/.test(field) ? `${first.type} ${field}` : first.type }
  }
  return { code: detail.code ?? detail.status ?? detail.type, requestId: detail.request_id }
}
