import { RetrySchedule, wait } from '../payment/retry-schedule.ts'
import { FareboxError, uncharged } from './farebox-error.ts'
import { type HttpAnswer, readAnswer } from './http-answer.ts'
import { parseObject } from './json.ts'
import { NoAnswer } from './no-answer.ts'
import { readServiceError, ServiceError } from './service-error.ts'

export interface ServiceAccess {
  readonly fetch: typeof globalThis.fetch
  readonly now: () => number
}

/** How a caller follows a request that may be repeated. */
export interface Followed {
  readonly signal?: AbortSignal | undefined
  /** Called before each wait. */
  readonly onWait?: ((error: FareboxError, waitMs: number) => void) | undefined
}

/** A request that is free and may be repeated. */
export interface FreeRequest extends Followed {
  readonly method?: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** How long to wait for retries; 30 seconds by default. */
  readonly patienceMs?: number | undefined
  /** How long to wait for each answer; 30 seconds by default. */
  readonly timeoutMs?: number | undefined
}

const DEFAULT_PATIENCE_MS = 30_000
const DEFAULT_TIMEOUT_MS = 30_000
/** A network that swallows a request may do so for longer than the patience lasts for one that refuses it. */
const LEAST_UNANSWERED = 3

/** Sends a free request, again as long as the service or the network calls for it. Throws `FareboxError`. */
export async function askService(access: ServiceAccess, url: string, request: FreeRequest = {}): Promise<HttpAnswer> {
  const { signal, onWait, patienceMs = DEFAULT_PATIENCE_MS } = request
  const schedule = new RetrySchedule(patienceMs, access.now)
  for (let sent = 1; ; sent += 1) {
    try {
      return await askOnce(access, url, request)
    } catch (error) {
      const isUnanswered = error instanceof NoAnswer && patienceMs === DEFAULT_PATIENCE_MS && sent < LEAST_UNANSWERED
      const askedMs = error instanceof ServiceError ? error.retryAfterMs : undefined
      const waitMs = isWorthRepeating(error) ? (schedule.next(askedMs) ?? (isUnanswered ? 0 : null)) : null
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
function jsonOf({ body, status }: HttpAnswer, url: string): unknown {
  const value = parseObject(body)
  if (value !== undefined) return value
  throw uncharged(
    'unexpected_answer',
    `${url} answered ${status} without a JSON object.`,
    'Check the URL of the service.',
  )
}

async function askOnce(
  { fetch }: ServiceAccess,
  url: string,
  { method = 'GET', headers = {}, body, signal, timeoutMs = DEFAULT_TIMEOUT_MS }: FreeRequest,
): Promise<HttpAnswer> {
  const timeout = AbortSignal.timeout(timeoutMs)
  const answer = await fetch(url, {
    method,
    headers: { accept: 'application/json', ...headers },
    redirect: 'error',
    ...(body === undefined ? {} : { body }),
    signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
  })
    .then((response) => readAnswer(response))
    .catch((cause: unknown) => {
      if (timeout.aborted && signal?.aborted !== true) throw new NoAnswer(url, timeoutMs, 'none')
      throw unreachable(url, signal?.aborted === true, cause)
    })
  if (answer.status >= 200 && answer.status < 300) return answer
  throw readServiceError(answer, false)
}

function isWorthRepeating(error: unknown): boolean {
  if (error instanceof ServiceError) return error.retry === 'same_request'
  return error instanceof NoAnswer || (error instanceof FareboxError && error.code === 'connection_lost')
}

function unreachable(url: string, isAborted: boolean, cause: unknown): FareboxError {
  return uncharged(
    isAborted ? 'aborted' : 'connection_lost',
    isAborted
      ? 'The request was interrupted.'
      : `No complete answer arrived from ${new URL(url).origin} (${reasonOf(cause)}).`,
    'Check the URL of the service and the network, then repeat the request.',
    cause,
  )
}

/** Returns why a `fetch` failed: Node hides the reason in the cause. */
export function reasonOf(error: unknown): string {
  const { cause } = error as { readonly cause?: unknown }
  if (cause instanceof Error && cause.message !== '') return cause.message
  return error instanceof Error ? error.message : String(error)
}
