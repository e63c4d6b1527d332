import { RetrySchedule, wait } from '../payment/retry-schedule.ts'
import { FareboxError } from './farebox-error.ts'
import { type HttpAnswer, readAnswer } from './http-answer.ts'
import { readServiceError, ServiceError } from './service-error.ts'

export interface ServiceAccess {
  readonly fetch: typeof globalThis.fetch
  readonly now: () => number
}

/** A request that is free and may be repeated. */
export interface FreeRequest {
  readonly method?: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** How long to wait for retries; 30 seconds by default. */
  readonly patienceMs?: number | undefined
  /** How long to wait for each answer; as long as the connection lasts by default. */
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
  /** Called before each wait. */
  readonly onWait?: ((error: FareboxError, waitMs: number) => void) | undefined
}

const DEFAULT_PATIENCE_MS = 30_000

/** Sends a free request, again as long as the service or the network calls for it. Throws `FareboxError`. */
export async function askService(access: ServiceAccess, url: string, request: FreeRequest = {}): Promise<HttpAnswer> {
  const { signal, onWait, patienceMs = DEFAULT_PATIENCE_MS } = request
  const schedule = new RetrySchedule(patienceMs, access.now)
  for (;;) {
    try {
      return await askOnce(access, url, request)
    } catch (error) {
      const waitMs = isWorthRepeating(error) ? schedule.next(retryAfterOf(error)) : null
      if (waitMs === null) throw error
      onWait?.(error as FareboxError, waitMs)
      await wait(waitMs, signal).catch(() => {
        throw error
      })
    }
  }
}

/** Asks for JSON. What it contains is the caller's to check. */
export async function askForJson<Result>(access: ServiceAccess, url: string, request?: FreeRequest): Promise<Result> {
  return jsonOf(await askService(access, url, request), url) as Result
}

/** Parses a successful answer. Throws `FareboxError` for one that is not a JSON object. */
export function jsonOf({ body, status }: HttpAnswer, url: string): unknown {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(body))
    if (typeof value === 'object' && value !== null) return value
  } catch {
    // Reported below.
  }
  throw new FareboxError({
    code: 'unexpected_answer',
    problem: `${url} answered ${status} without a JSON object.`,
    money: 'none',
    advice: 'Check the URL of the service.',
  })
}

async function askOnce(
  { fetch }: ServiceAccess,
  url: string,
  { method = 'GET', headers = {}, body, signal, timeoutMs }: FreeRequest,
): Promise<HttpAnswer> {
  const signals = [signal, timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs)]
  const given = signals.filter((each) => each !== undefined)
  const answer = await fetch(url, {
    method,
    headers: { accept: 'application/json', ...headers },
    redirect: 'error',
    ...(body === undefined ? {} : { body }),
    ...(given.length === 0 ? {} : { signal: AbortSignal.any(given) }),
  })
    .then(readAnswer)
    .catch((cause: unknown) => {
      throw unreachable(url, signal?.aborted === true, cause)
    })
  if (answer.status >= 200 && answer.status < 300) return answer
  throw readServiceError(answer, false)
}

function isWorthRepeating(error: unknown): boolean {
  if (error instanceof ServiceError) return error.retry === 'same_request'
  return error instanceof FareboxError && error.code === 'connection_lost'
}

function retryAfterOf(error: unknown): number | undefined {
  return error instanceof ServiceError ? error.retryAfterMs : undefined
}

function unreachable(url: string, isAborted: boolean, cause: unknown): FareboxError {
  return new FareboxError({
    code: isAborted ? 'aborted' : 'connection_lost',
    problem: isAborted
      ? 'The request was interrupted.'
      : `No complete answer arrived from ${new URL(url).origin} (${reasonOf(cause)}).`,
    money: 'none',
    advice: 'Check the URL of the service and the network, then repeat the request.',
    cause,
  })
}

/** Returns why a `fetch` failed: Node hides the reason in the cause. */
export function reasonOf(error: unknown): string {
  const { cause } = error as { readonly cause?: unknown }
  if (cause instanceof Error && cause.message !== '') return cause.message
  return error instanceof Error ? error.message : String(error)
}
