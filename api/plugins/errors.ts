import { type OutgoingHttpHeaders, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'
import { type ErrorCode, type ErrorKind } from '#shared/errors/error-codes.ts'
import type { EndpointFamily } from '#shared/operations/operation.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { readableHeaders } from './cors.ts'
import { newRequestId } from './request-context.ts'
import './request-telemetry.ts'

/** `error.type` by endpoint family (OpenAI and Anthropic API references, Errors). */
const ERROR_TYPES: Record<EndpointFamily, Record<ErrorKind, string>> = {
  openai: {
    invalid_request: 'invalid_request_error',
    authentication: 'authentication_error',
    not_found: 'not_found_error',
    rate_limit: 'rate_limit_error',
    payment: 'payment_required_error',
    unavailable: 'server_error',
  },
  anthropic: {
    invalid_request: 'invalid_request_error',
    authentication: 'authentication_error',
    not_found: 'not_found_error',
    rate_limit: 'rate_limit_error',
    payment: 'billing_error',
    unavailable: 'overloaded_error',
  },
}

/** Codes for Fastify's own errors, which occur before a route sees the request. */
const FASTIFY_ERROR_CODES: Record<string, ErrorCode> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'body_too_large',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_content_type',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'invalid_json',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'invalid_json',
}

/** Codes for the errors of Node's HTTP server that are more specific than `malformed_http`. */
const MALFORMED_HTTP_CODES: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/**
 * Answers input that Node's HTTP parser rejects: sends the common error body on the raw socket and closes the
 * connection. The endpoint is unknown here, so the error type is OpenAI's.
 */
export function answerMalformedHttp(failure: { code?: string }, socket: Socket): void {
  // Follows a request that asked for the connection to be closed, whose response may still be on its way.
  if (!socket.writable || failure.code === 'HPE_CLOSED_CONNECTION') return
  if (isBeingAnswered(socket)) return
  const error = new AppError(MALFORMED_HTTP_CODES[failure.code ?? ''] ?? 'malformed_http')
  // Browsers open idle connections in advance and would take this response for that of their next request.
  if (error.code === 'request_timeout' && socket.bytesRead === 0) return void socket.destroy()
  const requestId = newRequestId()
  const body = JSON.stringify(errorBody(error, 'openai', requestId))
  const head = [
    `HTTP/1.1 ${error.entry.status} ${STATUS_CODES[error.entry.status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'x-content-type-options: nosniff',
    `x-request-id: ${requestId}`,
    `request-id: ${requestId}`,
    // Whether a page sent it is not known; the list serves all.
    ...Object.entries({ ...readableHeaders('any'), ...retryHeaders(error) }).map(
      ([name, value]) => `${name}: ${value}`,
    ),
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

/**
 * Returns whether this connection has a response that the rejected input is not to replace: one that has begun, as for a
 * request whose head was refused while the parser rejects the rest, or that of a complete request in front of the input.
 * The connection closes behind that response: a second one would be taken for the answer to another request. Node's own
 * answer to such input depends on the same, undocumented property.
 */
function isBeingAnswered(socket: Socket & { readonly _httpMessage?: ServerResponse | null }): boolean {
  const { _httpMessage: response } = socket
  if (!response || !(response.headersSent || response.req.complete)) return false
  // Once: this is called for each piece of what still arrives.
  if (!closing.has(response)) response.once('finish', () => socket.destroySoon())
  closing.add(response)
  return true
}

/** Responses behind which their connection closes. */
const closing = new WeakSet<ServerResponse>()

/** Answers a URL that the router cannot read, before any hook has run. */
export function answerUnroutable({ code }: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  const error =
    code === 'FST_ERR_BAD_URL'
      ? new AppError('malformed_http', { message: 'The path contains invalid percent-encoding.' })
      : noSuchRoute()
  const identity = { 'x-request-id': request.id, 'request-id': request.id, 'x-content-type-options': 'nosniff' }
  void sendError(reply.headers({ ...identity, ...readableHeaders(request.headers.origin) }), request, error)
}

function noSuchRoute(hint = ''): AppError {
  return new AppError('not_found', { message: `There is no such route.${hint}` })
}

/** OpenAI's SDKs append `/chat/completions` to their base URL, Anthropic's `/v1/messages`. */
const BASE_URLS = "The base URL of OpenAI's SDKs ends with /v1, that of Anthropic's does not."

/** Names the route that another base URL would have reached from `/chat/completions`, `/v1/v1/messages` or `/v1//models`. */
function hintAt(path: string, isRoute: (path: string) => boolean): string {
  const tidy = path.replaceAll(/\/{2,}/g, '/').replace(/(?<=.)\/$/, '')
  if (isRoute(tidy)) return ` Did you mean ${tidy}?`
  const meant = [`/v1${tidy}`, tidy.replace(/^\/v1(?=\/v1\/)/, '')].find(isRoute)
  return meant === undefined ? '' : ` Did you mean ${meant}? ${BASE_URLS}`
}

/** Retry delay of errors that do not set one. */
const DEFAULT_RETRY_AFTER_SECONDS = 2

/** What a request failed with, and the common body that says so. */
export interface RenderedError {
  readonly error: AppError
  readonly body: ReturnType<typeof errorBody>
}

/** Renders an error that is part of another answer, and logs it as `addErrorHandling` does. */
export type ErrorRenderer = (thrown: unknown, request: FastifyRequest) => RenderedError

export function createErrorRenderer(isDependencyFailure: (error: unknown) => boolean, logger: Logger): ErrorRenderer {
  return (thrown, request) => {
    const error = toAppError(thrown, isDependencyFailure)
    if (error.entry.status >= 500) logFailure(logger, request, error)
    return { error, body: errorBody(error, 'openai', request.id) }
  }
}

/** Answers everything that is thrown, unknown routes and unknown methods with the common error body. */
export function addErrorHandling(
  app: FastifyInstance,
  isDependencyFailure: (error: unknown) => boolean,
  logger: Logger,
): void {
  app.setErrorHandler((thrown, request, reply) => {
    // Fastify also parses the body of a request without a route.
    if (request.is404 && !(thrown instanceof AppError)) return answerNotFound(request, reply)
    const error = toAppError(thrown, isDependencyFailure)
    if (error.entry.status >= 500) logFailure(logger, request, error)
    return sendError(reply, request, error)
  })
  const methodsOf = collectRouteMethods(app)
  const answerNotFound = (request: FastifyRequest, reply: FastifyReply) => {
    const path = request.url.split('?', 1)[0] ?? '/'
    const allowed = methodsOf(path)
    // A method of the route itself comes here when the route found nothing.
    if (allowed.includes(request.method)) return sendError(reply, request, noSuchRoute())
    if (allowed.length === 0) {
      const hint = hintAt(path, (other) => methodsOf(other).length > 0)
      return sendError(reply, request, noSuchRoute(hint))
    }
    reply.header('allow', allowed.join(', '))
    const message = `${request.method} is not allowed here; use ${allowed.join(' or ')}.`
    return sendError(reply, request, new AppError('method_not_allowed', { message }))
  }
  app.setNotFoundHandler(answerNotFound)
}

/** 503s that callers can cause at will: for lack of room, or because the work is not finished. */
const SHED_CODES: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'overloaded',
  'capacity_exceeded',
  'request_in_progress',
  'settlement_pending',
])

/**
 * Logs a 5xx. Shed load is often caused by callers rather than by a fault: it is logged as information, without a
 * stack.
 */
function logFailure(logger: Logger, request: FastifyRequest, error: AppError): void {
  const fields = {
    requestId: request.id,
    ...(request.trace?.traceId && { traceId: request.trace.traceId }),
    code: error.code,
  }
  if (SHED_CODES.has(error.code)) logger.info('request shed', fields)
  else logger.error('request failed', { ...fields, error: error.cause ?? error })
}

/** Sends `error` as the common body, with the headers that the SDKs' retry logic reads. */
function sendError(reply: FastifyReply, request: FastifyRequest, error: AppError): FastifyReply {
  // The route, where one was found: a path may be spelled in many ways.
  const path = request.routeOptions.url ?? request.url
  const family: EndpointFamily = path.startsWith('/v1/messages') ? 'anthropic' : 'openai'
  const body = errorBody(error, family, request.id)
  request.outcome = error.code
  reply.status(error.entry.status).headers({ ...error.headers, ...retryHeaders(error) })
  const lingerMs = error.code === 'overloaded' ? OVERLOADED_LINGER_MS : LINGER_MS
  return isStillArriving(request, error) ? sendWhileBodyArrives(reply, request, body, lingerMs) : reply.send(body)
}

/** The rest of a shorter body is discarded, and its connection stays open. */
const LONG_BODY_BYTES = 64 * 1024

/** Returns whether the body was rejected, for its size or for lack of memory, before it had arrived completely. */
function isStillArriving({ raw, headers }: FastifyRequest, { code }: AppError): boolean {
  if (code === 'body_too_large' || code === 'request_timeout') return true
  // A client that still expects `100 Continue` has not begun to send its body.
  if (raw.complete || headers.expect !== undefined) return false
  const isLong = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > LONG_BODY_BYTES
  return code === 'audio_too_large' || (code === 'overloaded' && isLong)
}

/** How long the rest of a rejected body is read and discarded: a body that is too large may never end. */
const LINGER_MS = 2000
/** 25 MiB take this long at 7 Mbit/s; many clients read the response only after sending the whole body. */
const OVERLOADED_LINGER_MS = 30_000

/**
 * Sends the response immediately, but closes the connection only when the rest of the body has arrived or the time is
 * up: closing a connection with unread bytes resets it, and the caller would lose the response.
 */
function sendWhileBodyArrives(
  reply: FastifyReply,
  request: FastifyRequest,
  response: unknown,
  lingerMs: number,
): FastifyReply {
  const body = JSON.stringify(response)
  const headers = reply.getHeaders() as OutgoingHttpHeaders
  reply.hijack()
  reply.raw.writeHead(reply.statusCode, {
    ...headers,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  })
  reply.raw.write(body)
  const linger = setTimeout(() => reply.raw.end(), lingerMs)
  request.raw.once('end', () => {
    clearTimeout(linger)
    reply.raw.end()
  })
  request.raw.resume()
  return reply
}

function errorBody(error: AppError, family: EndpointFamily, requestId: string) {
  return {
    type: 'error',
    error: {
      type: ERROR_TYPES[family][error.entry.kind],
      message: error.message,
      param: error.param ?? null,
      code: error.code,
      payment: error.entry.payment,
      retry: error.entry.retry,
    },
    request_id: requestId,
  }
}

/**
 * Returns the headers that the OpenAI and Anthropic SDKs decide by whether and when to retry. Their retry of a 409 begins
 * with an unpaid request, so it also brings the new payment that some ask for.
 */
function retryHeaders(error: AppError): Record<string, string> {
  const seconds = error.retryAfterSeconds ?? (error.entry.status === 503 ? DEFAULT_RETRY_AFTER_SECONDS : undefined)
  return {
    'cache-control': 'no-store',
    ...(error.entry.retry === 'never' ? { 'x-should-retry': 'false' } : {}),
    ...(error.entry.retry !== 'never' && error.entry.status === 409 ? { 'x-should-retry': 'true' } : {}),
    ...(seconds === undefined || error.entry.retry === 'never'
      ? {}
      : { 'retry-after': Math.ceil(seconds).toString(), 'retry-after-ms': (seconds * 1000).toString() }),
  }
}

function toAppError(thrown: unknown, isDependencyFailure: (error: unknown) => boolean): AppError {
  if (thrown instanceof AppError) return thrown
  if (isDependencyFailure(thrown)) return new AppError('database_unavailable', { cause: thrown })
  const code = thrown instanceof Error && 'code' in thrown ? FASTIFY_ERROR_CODES[String(thrown.code)] : undefined
  return new AppError(code ?? codeOfStatus(thrown) ?? 'internal_error', { cause: thrown })
}

/** Maps an error that a plugin raised because of the request, by its status. */
function codeOfStatus(thrown: unknown): ErrorCode | undefined {
  if (!(thrown instanceof Error) || !('statusCode' in thrown)) return undefined
  const status = Number(thrown.statusCode)
  if (status === 403 || status === 404) return 'not_found'
  return status >= 400 && status < 500 ? 'malformed_http' : undefined
}

/** Collects the methods of every route that is added later. Returns a function that looks up the methods of a path. */
function collectRouteMethods(app: FastifyInstance): (path: string) => readonly string[] {
  const routes: { pattern: RegExp; methods: readonly string[] }[] = []
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = url.replaceAll(/:[^/]+/g, '[^/]+').replaceAll('*', '.+')
    routes.push({ pattern: new RegExp(`^${pattern}$`), methods: [method].flat() })
  })
  return (path) => [...new Set(routes.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods))]
}
