import {
  type BodyReader,
  lookAtBody,
  readerOf,
  readEventStream,
  type StreamProgress,
  type TakeEvent,
} from './event-stream.ts'
import type { ProviderFetch, ProviderResponse } from './provider-fetch.ts'
import { type StreamedBody, streamedText } from './streamed-body.ts'

/** A request of a vendor adapter. A streamed body brings its content type and length. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: StreamedBody | string
}

export interface HttpLimits {
  /** For the whole exchange, headers and body together. */
  readonly timeoutMs: number
  /** Counted after decompression, which also stops decompression bombs. */
  readonly maximumResponseBytes: number
  readonly signal?: AbortSignal | undefined
  /** Takes the events of a response that is a stream; every other response is read as without it. */
  readonly onEvent?: TakeEvent
}

/**
 * - `response`: the vendor answered. The body is complete for a 2xx; for any other status it is the part that arrived
 *   (at most 64 KiB), because the status alone decides.
 * - `not_sent`: not one byte of the request can have reached the vendor.
 * - `unknown`: the vendor may have received the request. `status` is set when its headers arrived, `timedOut` when
 *   `timeoutMs` ended the exchange.
 *
 * `streamed` is set when the response was a stream that `onEvent` took: how far it had come when it ended.
 *
 * `reason` is built from error codes only: messages of `fetch` can quote header values, including the key.
 */
export type HttpOutcome =
  | {
      readonly outcome: 'response'
      readonly status: number
      readonly headers: Headers
      readonly bytes: Uint8Array
      readonly streamed?: StreamProgress
    }
  | { readonly outcome: 'not_sent'; readonly reason: string }
  | {
      readonly outcome: 'unknown'
      readonly reason: string
      readonly status?: number
      readonly timedOut?: true
      readonly streamed?: StreamProgress
    }

export type SendHttp = (request: HttpRequest, limits: HttpLimits) => Promise<HttpOutcome>

const MAXIMUM_ERROR_BODY_BYTES = 65_536

/** 65,536 tokens in events of their own, each of which repeats ids and counts. */
const MAXIMUM_STREAM_BYTES = 64 * 1024 * 1024

/** A streamed answer whose first words have arrived is given up after a pause of this length. */
const STALL_MS = 120_000

export interface HttpDependencies {
  readonly fetch: ProviderFetch
  /** The longest pause of a stream that has begun to write. */
  readonly stallMs?: number
}

/**
 * Creates the HTTP client of all adapters. It sends once, follows no redirects (the key must not reach another host; a
 * 3xx is returned as a `response`) and never throws on a network failure.
 */
export function createHttp({ fetch, stallMs = STALL_MS }: HttpDependencies): SendHttp {
  return async (request, limits) => {
    if (limits.signal?.aborted === true) return { outcome: 'not_sent', reason: 'aborted before sending' }
    if (limits.timeoutMs <= 0) return { outcome: 'not_sent', reason: 'no time left' }
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), limits.timeoutMs)
    const signal = limits.signal === undefined ? deadline.signal : AbortSignal.any([limits.signal, deadline.signal])
    const reasonFor = (error: unknown): string => {
      if (deadline.signal.aborted) return `no complete response within ${limits.timeoutMs} ms`
      return limits.signal?.aborted === true ? 'aborted by the caller' : errorCode(error)
    }
    const ended = () => (deadline.signal.aborted ? { timedOut: true as const } : {})
    try {
      const response = await fetch(request.url, {
        method: request.method,
        ...bodyOf(request),
        redirect: 'manual',
        signal,
      })
      const { onEvent, maximumResponseBytes } = limits
      const mayStream = onEvent !== undefined && response.status === 200
      const { isEventStream, reader } = mayStream
        ? await lookAtBody(response)
        : { isEventStream: false, reader: readerOf(response) }
      const read =
        onEvent !== undefined && isEventStream
          ? await readStream(response, reader, { onEvent, stallMs, reasonFor })
          : await readResponse(response, reader, { maximumResponseBytes, reasonFor })
      return read.outcome === 'unknown' ? { ...read, ...ended() } : read
    } catch (error) {
      // An abort takes precedence over the error's code: which of the two came first is unknown.
      if (!signal.aborted && happenedBeforeSending(error)) return { outcome: 'not_sent', reason: reasonFor(error) }
      return { outcome: 'unknown', reason: reasonFor(error), ...ended() }
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Above this, `fetch` encodes a text as a whole, and TLS copies that. */
const LONG_TEXT_LENGTH = 256 * 1024

/** Returns the headers and the body. The length is announced: vendors and proxies refuse chunked uploads. */
function bodyOf({ headers, body }: HttpRequest): Pick<Parameters<ProviderFetch>[1], 'headers' | 'body' | 'duplex'> {
  if (body === undefined) return { headers }
  if (typeof body === 'string' && body.length <= LONG_TEXT_LENGTH) return { headers, body }
  const { contentType, bytes, open } =
    typeof body === 'string' ? streamedText(body, headers['content-type'] ?? 'text/plain') : body
  return {
    headers: { ...headers, 'content-type': contentType, 'content-length': String(bytes) },
    body: open(),
    duplex: 'half',
  }
}

async function readResponse(
  { status, headers }: ProviderResponse,
  reader: BodyReader,
  {
    maximumResponseBytes,
    reasonFor,
  }: { readonly maximumResponseBytes: number; readonly reasonFor: (error: unknown) => string },
): Promise<HttpOutcome> {
  const succeeded = status >= 200 && status < 300
  const maximumBytes = succeeded ? maximumResponseBytes : Math.min(MAXIMUM_ERROR_BODY_BYTES, maximumResponseBytes)
  const body = await readCapped(reader, maximumBytes)
  if (!succeeded || body.end === 'complete') return { outcome: 'response', status, headers, bytes: body.bytes }
  const reason = body.end === 'over_limit' ? `response larger than ${maximumBytes} bytes` : reasonFor(body.error)
  return { outcome: 'unknown', status, reason }
}

async function readStream(
  { status, headers }: ProviderResponse,
  reader: BodyReader,
  { onEvent, stallMs, reasonFor }: { onEvent: TakeEvent; stallMs: number; reasonFor: (error: unknown) => string },
): Promise<HttpOutcome> {
  const read = await readEventStream(reader, onEvent, { maximumBytes: MAXIMUM_STREAM_BYTES, stallMs })
  const { progress: streamed } = read
  switch (read.end) {
    case 'closed':
      return { outcome: 'response', status, headers, bytes: new Uint8Array(), streamed }
    case 'over_limit':
      return { outcome: 'unknown', status, streamed, reason: `stream larger than ${MAXIMUM_STREAM_BYTES} bytes` }
    case 'stalled':
      return { outcome: 'unknown', status, streamed, reason: `no event within ${stallMs} ms` }
    case 'broken':
      return { outcome: 'unknown', status, streamed, reason: reasonFor(read.error) }
  }
}

type CappedBody =
  | { readonly end: 'complete'; readonly bytes: Uint8Array }
  | { readonly end: 'over_limit'; readonly bytes: Uint8Array }
  | { readonly end: 'broken'; readonly bytes: Uint8Array; readonly error: unknown }

/** Reads up to `maximumBytes`, and then closes the connection unless the body has ended. */
async function readCapped(reader: BodyReader, maximumBytes: number): Promise<CappedBody> {
  const chunks: Uint8Array[] = []
  let length = 0
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return { bytes: Buffer.concat(chunks), end: 'complete' }
      length += value.byteLength
      if (length > maximumBytes) return { bytes: Buffer.concat(chunks), end: 'over_limit' }
      chunks.push(value)
    }
  } catch (error) {
    return { bytes: Buffer.concat(chunks), end: 'broken', error }
  } finally {
    void reader.cancel().catch(() => undefined)
  }
}

/**
 * Certificate errors, which Node raises during the TLS handshake, before the request. Other TLS errors (an alert, a
 * protocol error) can follow the request and are not listed. Source: nodejs.org/api/tls.html, "X509 certificate error
 * codes".
 */
const CERTIFICATE_ERROR_CODES: ReadonlySet<string> = new Set([
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_REVOKED',
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'HOSTNAME_MISMATCH',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/**
 * Returns true only when the failing step precedes the first byte of the request. The system call decides, because
 * codes such as ETIMEDOUT or EHOSTUNREACH also end established connections. Anything unrecognized counts as sent.
 */
function happenedBeforeSending(error: unknown): boolean {
  const failure = rootFailure(error)
  // Node tries every address of a host and collects the failures.
  if (failure instanceof AggregateError) return failure.errors.length > 0 && failure.errors.every(happenedBeforeSending)
  const { code, syscall } = fieldsOf(failure)
  if (syscall === 'connect' || syscall === 'getaddrinfo') return true
  return code === 'UND_ERR_CONNECT_TIMEOUT' || (code !== undefined && CERTIFICATE_ERROR_CODES.has(code))
}

/** Unwraps the system error, which `fetch` sets as the cause of a TypeError. */
function rootFailure(error: unknown): unknown {
  return error instanceof TypeError && error.cause !== undefined ? error.cause : error
}

function errorCode(error: unknown): string {
  const { code } = fieldsOf(rootFailure(error))
  return code !== undefined && /^[A-Z0-9_]{1,64}$/.test(code) ? code : 'connection failed'
}

function fieldsOf(failure: unknown): { code?: string; syscall?: string } {
  if (typeof failure !== 'object' || failure === null) return {}
  const code = 'code' in failure && typeof failure.code === 'string' ? failure.code : undefined
  const syscall = 'syscall' in failure && typeof failure.syscall === 'string' ? failure.syscall : undefined
  return { ...(code === undefined ? {} : { code }), ...(syscall === undefined ? {} : { syscall }) }
}
