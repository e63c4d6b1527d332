import { failureWithoutAnswer, rejected, retryAfter, unavailable, unknownOutcome } from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import type { ProviderFailure } from '../provider.ts'
import { errorWire } from './wire.ts'

/** Refusals of the request itself, before any work. */
const inputRefusals: ReadonlySet<number> = new Set([400, 413, 422])

/** Refusals that lie with the key, the project or the moment; another deployment may accept the same input. */
const deploymentRefusals: ReadonlySet<number> = new Set([401, 402, 403, 404, 429])

/**
 * Server errors of the vendor's own that are not billed, by status and name. An answer of the same status without the
 * vendor's name comes from something in between, which does not know what the vendor did.
 */
const unbilledServerErrors: ReadonlyMap<number, string> = new Map([
  [500, 'INTERNAL'],
  [503, 'UNAVAILABLE'],
])

/**
 * Turns every exchange that is not a 200 into a failure.
 *
 * "If your request fails with a 400 or 500 error, you won't be charged for the tokens used"
 * (ai.google.dev/gemini-api/docs/billing), and no result of a failed call is kept, so the vendor's own 500 and 503 are
 * definite. A 504 says that processing ran out of time; it, redirects, 408, 409 and anything unlisted are ambiguous.
 * Account trouble also comes as 400: an invalid key with reason API_KEY_INVALID, and a region or billing that does not fit
 * as FAILED_PRECONDITION (ai.google.dev/gemini-api/docs/troubleshooting).
 */
export function failureOf(exchange: HttpOutcome): ProviderFailure {
  if (exchange.outcome !== 'response') return failureWithoutAnswer(exchange)
  const { status, headers } = exchange
  const { name, detail, retryDelaySeconds } = readError(exchange.bytes)
  const reason = ['HTTP', status, name, detail].filter((word) => word !== undefined).join(' ')
  const known = {
    ...(retryDelaySeconds === undefined ? {} : { retryAfterSeconds: retryDelaySeconds }),
    ...retryAfter(headers),
  }
  const ofDeployment = name === 'FAILED_PRECONDITION' || detail?.startsWith('API_KEY_') === true
  if (deploymentRefusals.has(status)) return { ...unavailable(reason), ...known }
  if (inputRefusals.has(status)) return { ...(ofDeployment ? unavailable(reason) : rejected(reason)), ...known }
  const unbilled = name !== undefined && unbilledServerErrors.get(status) === name
  return { ...(unbilled ? unavailable(reason) : unknownOutcome(reason)), ...known }
}

function readError(bytes: Uint8Array): { name?: string; detail?: string; retryDelaySeconds?: number } {
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    // A proxy in between answers with HTML or nothing; the status carries the meaning.
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
