import { createHash, randomUUID } from 'node:crypto'
import { BudgetExceeded } from '../budget/budget-exceeded.ts'
import type { Journal } from '../journal/journal.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import { toResponse } from '../wire/http-answer.ts'
import { parseObject } from '../wire/json.ts'
import { ServiceError } from '../wire/service-error.ts'
import { requestIdentity } from './call-key.ts'
import { OPERATION_PATHS } from './operations.ts'
import type { PaymentContext } from './paid-call.ts'
import { payCall } from './pay-call.ts'
import { LONGEST_SILENCE_MS } from './send-call.ts'

/** A result is kept for at least a day, so an unfinished call that is older is made again under another key. */
const RESUMABLE_MS = 86_400_000

/** The endpoints that are paid for. Every other request passes unchanged. */
const PAID_PATHS: ReadonlySet<string> = new Set(Object.values(OPERATION_PATHS))

/** Codes after which an equal request must not take the key again: its result can never be had. */
export const SPENT_KEYS: ReadonlySet<string> = new Set([
  'idempotency_key_reused',
  'result_expired',
  'payment_already_settled',
  'payment_refunded',
  'payment_resolved_outside',
  'payment_written_off',
])
/** Set by the clients here; the service refuses or does not need them. */
const DROPPED_HEADERS = ['content-length', 'x-idempotency-key', 'payment-signature'] as const

/**
 * Creates a `fetch` that pays. It is for SDKs: it retries nothing but payments, because they retry themselves, and keeps
 * the idempotency key over their retries. A refusal by the client is a 402 that SDKs do not retry.
 */
export function createPayingFetch(context: PaymentContext, baseUrl: string): typeof globalThis.fetch {
  const calls = new LogicalCalls(context.journal, context.payer, context.now)
  const { origin } = new URL(baseUrl)
  return async (input, init) => {
    const request = new Request(input, init)
    const url = new URL(request.url)
    const isPaid = url.origin === origin && request.method === 'POST' && PAID_PATHS.has(url.pathname)
    if (!isPaid) return await context.fetch(request)
    return await fetchPaid(context, calls, request)
  }
}

async function fetchPaid(context: PaymentContext, calls: LogicalCalls, request: Request): Promise<Response> {
  const { signal, url } = request
  const body = new Uint8Array(await request.arrayBuffer())
  const identity = requestIdentity('POST', url, bodyDigest(body, request.headers.get('content-type')))
  const givenKey = request.headers.get('x-idempotency-key')
  const logicalCall = givenKey === null ? calls.begin(identity) : null
  // The SDK may retry as soon as it has aborted, before the exchange has ended.
  signal.addEventListener('abort', () => logicalCall?.fail(), { once: true })
  try {
    const { answer } = await payCall(context, {
      key: givenKey ?? logicalCall?.key ?? '',
      url,
      identity,
      purpose: 'fetch',
      model: modelOf(body, request.headers.get('content-type')),
      headers: withoutDropped(request.headers),
      body: () => body,
      patienceMs: 0,
      // An SDK has a deadline of its own.
      answerWithinMs: LONGEST_SILENCE_MS,
      signal,
    })
    logicalCall?.succeed()
    return toResponse(answer)
  } catch (error) {
    const isSpent = error instanceof FareboxError && SPENT_KEYS.has(error.code)
    if (isSpent) logicalCall?.succeed()
    else logicalCall?.fail()
    return responseOf(error, signal)
  }
}

/** Returns what the SDK reads as an API error; what it should see as a failed connection is thrown. */
function responseOf(error: unknown, signal: AbortSignal): Response {
  if (signal.aborted) throw signal.reason
  if (error instanceof ServiceError) return toResponse(error.answer)
  if (!(error instanceof FareboxError)) throw error
  // The message of Node's own fetch: the AI SDK recognizes a failed connection by it.
  if (error.code === 'connection_lost' || error.code === 'no_answer')
    throw new TypeError('fetch failed', { cause: error })
  const { code, message, money } = error
  const type = error instanceof BudgetExceeded ? 'budget_error' : 'payment_error'
  const details = { type, code, message, param: null, payment: money, retry: 'never' }
  return Response.json(
    { type: 'error', error: details },
    { status: 402, headers: { 'x-should-retry': 'false', 'x-farebox-client-error': code } },
  )
}

/** Returns the model for the journal; that of a form is known from its receipt. */
function modelOf(body: Uint8Array, contentType: string | null): string | undefined {
  if (contentType?.includes('json') !== true) return undefined
  const model = parseObject(body)?.['model']
  return typeof model === 'string' ? model : undefined
}

function withoutDropped(headers: Headers): Record<string, string> {
  const kept = new Headers(headers)
  for (const name of DROPPED_HEADERS) kept.delete(name)
  return Object.fromEntries(kept)
}

/** Returns the SHA-256 of a body. The boundary of a form is left out: SDKs draw another one for each retry. */
export function bodyDigest(body: Uint8Array, contentType: string | null): string {
  const boundary = /^multipart\/form-data\b.*?boundary="?([^";]+)"?/i.exec(contentType ?? '')?.[1]
  const digest = createHash('sha256')
  if (boundary === undefined) return digest.update(body).digest('hex')
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  let start = 0
  for (let end = bytes.indexOf(boundary); end !== -1; end = bytes.indexOf(boundary, start)) {
    digest.update(bytes.subarray(start, end))
    start = end + boundary.length
  }
  return digest.update(bytes.subarray(start)).digest('hex')
}

interface FailedCall {
  readonly key: string
  readonly at: number
}

/**
 * Assigns idempotency keys to requests that bring none. An equal request repeats a call that failed, was aborted or was
 * left unfinished by an earlier process; otherwise it is another call, even while an equal one is under way.
 */
export class LogicalCalls {
  readonly #journal: Journal
  readonly #payer: string
  readonly #now: () => number
  readonly #failed = new Map<string, readonly FailedCall[]>()
  readonly #known = new Set<string>()

  constructor(journal: Journal, payer: string, now: () => number = Date.now) {
    this.#journal = journal
    this.#payer = payer
    this.#now = now
  }

  /** Begins one sending of a logical call. */
  begin(identity: string) {
    const key = this.#takeFailed(identity) ?? this.#takeUnfinished(identity) ?? randomUUID()
    this.#known.add(key)
    let isOver = false
    return {
      key,
      /** Ends the call: another equal request is another call. */
      succeed: () => {
        isOver = true
      },
      /** Keeps the key for the next equal request, which repeats the call. */
      fail: () => {
        if (isOver) return
        isOver = true
        this.#failed.set(identity, [...(this.#failed.get(identity) ?? []), { key, at: this.#now() }])
      },
    }
  }

  #takeFailed(identity: string): string | undefined {
    const since = this.#now() - RESUMABLE_MS
    const [first, ...others] = (this.#failed.get(identity) ?? []).filter(({ at }) => at >= since)
    if (others.length > 0) this.#failed.set(identity, others)
    else this.#failed.delete(identity)
    return first?.key
  }

  /**
   * Calls of this process are known: they are under way, failed or finished. Those of another wallet belong to it: the service
   * refuses its key from anyone else.
   */
  #takeUnfinished(identity: string): string | undefined {
    const since = this.#now() - RESUMABLE_MS
    return this.#journal.attempts
      .withIdentity(identity)
      .find(
        ({ key, payer, receipts, changedAt, writer }) =>
          payer === this.#payer &&
          receipts.length === 0 &&
          changedAt >= since &&
          !this.#known.has(key) &&
          !this.#journal.isWrittenElsewhere(writer),
      )?.key
  }
}
