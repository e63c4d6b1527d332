import { failureWithoutAnswer, rejected, retryAfter, unavailable, unknownOutcome } from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import type { ProviderFailure } from '../provider.ts'
import { unserviceable } from '../unserviceable.ts'
import { callName, readJson } from './connection.ts'
import { errorWire } from './wire.ts'

/** Refusals of the request itself, before any work. */
const inputRefusals: ReadonlySet<number> = new Set([400, 413, 415, 422])

/** Refusals that lie with the account, the address or the moment; another deployment may accept the same input. */
const deploymentRefusals: ReadonlySet<number> = new Set([401, 402, 403, 404, 429])

/** Trouble of the deployment under status 400; `billing_hard_limit_reached` is how OpenAI's images say it. */
const deploymentCodes: ReadonlySet<string> = new Set([
  'billing_hard_limit_reached',
  'insufficient_quota',
  'invalid_api_key',
  'model_not_found',
])

/** A field, sent for this request, that this server or model does not take although others do. */
const abilityCodes: ReadonlySet<string> = new Set(['unknown_parameter', 'unsupported_parameter', 'unsupported_value'])

/**
 * Turns every exchange that is not a 200 into a failure.
 *
 * OpenAI documents its 4xx as problems of request and account (developers.openai.com, Error codes) and gives no promise for
 * 5xx, so a 5xx, a redirect, 408, 409, 425 and a 2xx other than 200 are ambiguous. One 503 is definite: llama.cpp's
 * `unavailable_error`, sent while the model is loading, before the request is looked at (tools/server/README.md).
 */
export function failureOf(exchange: HttpOutcome): ProviderFailure {
  if (exchange.outcome !== 'response') return failureWithoutAnswer(exchange)
  const { status, headers } = exchange
  const parsed = errorWire.safeParse(readJson(exchange.bytes))
  const { code, type } = parsed.success ? parsed.data : {}
  const said = code ?? type
  const reason = said === undefined || said === null ? `HTTP ${status}` : `HTTP ${status} ${said}`
  const known = { ...callName(headers), ...retryAfter(headers) }
  const isLoading = status === 503 && type === 'unavailable_error'
  if (deploymentRefusals.has(status) || isLoading) return { ...unavailable(reason), ...known }
  if (inputRefusals.has(status)) {
    if (deploymentCodes.has(code ?? '')) return { ...unavailable(reason), ...known }
    if (abilityCodes.has(code ?? '')) return { ...unserviceable(reason), ...known }
    return { ...rejected(reason), ...known }
  }
  return { ...unknownOutcome(reason), ...known }
}
