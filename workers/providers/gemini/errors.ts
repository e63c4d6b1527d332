import { failureWithoutResponse, rejected, retryAfter, unavailable, unknownOutcome } from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import type { ProviderFailure } from '../provider.ts'
import { errorWire } from './wire.ts'

/** Statuses that reject the request itself, before any work. */
const INPUT_REJECTIONS: ReadonlySet<number> = new Set([400, 413, 422])

/** Statuses caused by the key, the project or the load; another deployment may accept the same input. */
const DEPLOYMENT_REJECTIONS: ReadonlySet<number> = new Set([401, 402, 403, 404, 429])

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
 * as FAILED_PRECONDITION (ai.google.dev/gemini-api/docs/troubleshooting).
 */
export function failureOf(exchange: HttpOutcome): ProviderFailure {
  if (exchange.outcome !== 'response') return failureWithoutResponse(exchange)
  const { status, headers } = exchange
  const { name, detail, retryDelaySeconds } = readError(exchange.bytes)
  const reason = ['HTTP', status, name, detail].filter((word) => word !== undefined).join(' ')
  const known = {
    ...(retryDelaySeconds === undefined ? {} : { retryAfterSeconds: retryDelaySeconds }),
    ...retryAfter(headers),
  }
  const isDeploymentProblem = name === 'FAILED_PRECONDITION' || detail?.startsWith('API_KEY_') === true
  if (DEPLOYMENT_REJECTIONS.has(status)) return { ...unavailable(reason), ...known }
  if (INPUT_REJECTIONS.has(status))
    return { ...(isDeploymentProblem ? unavailable(reason) : rejected(reason)), ...known }
  const unbilled = name !== undefined && UNBILLED_SERVER_ERRORS.get(status) === name
  return { ...(unbilled ? unavailable(reason) : unknownOutcome(reason)), ...known }
}

function readError(bytes: Uint8Array): { name?: string; detail?: string; retryDelaySeconds?: number } {
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    // A proxy responded with HTML or nothing; the status decides.
    return {}
  }
  const parsed = errorWire.safeParse(body)
  if (!parsed.success) return {}
  const { status: name, details = [] } = parsed.data.error
  const detail = details.find(({ reason }) => reason !== undefined)?.reason
  const delay = details.find(({ retryDelay }) => retryDelay !== undefined)?.retryDelay
  const seconds = /^(\d{1,5})(?:\.\d+)?s$/.exec(delay ?? '')?.[1]
  return {
    ...(name === undefined ? {} : { name }),
    ...(detail === undefined ? {} : { detail }),
    ...(seconds === undefined ? {} : { retryDelaySeconds: Number(seconds) }),
  }
}
