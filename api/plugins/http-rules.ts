import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'

/** `uri-host [":" port]` of RFC 9110, 7.2; an empty host is valid there. */
const HOST = /^([\w.~!$&'()*+,;=%-]*|\[[0-9a-f:.]+\])(:\d{0,5})?$/i

/**
 * Refuses requests that Node's parser accepts but that a proxy in front might read differently, or that ask for
 * something that this service would ignore: several or invalid `Host` headers, transfer codings other than `chunked`,
 * expectations other than `100-continue`, versions other than HTTP/1, encoded bodies and charsets other than UTF-8.
 * Node hides the protocol's name, so `RTSP/1.0` cannot be distinguished from `HTTP/1.0`.
 */
export function addHttpRules(app: FastifyInstance): void {
  app.addHook('onRequest', (request, _reply, done) => {
    done(findViolation(request.raw) ?? undefined)
  })
  // Runs after the head was accepted, since a probe may announce any content type, and before the body is requested.
  app.addHook('preParsing', (request, _reply, payload, done) => {
    done(findBodyViolation(request.raw.headers), payload)
  })
}

function findViolation({ httpVersion, rawHeaders, headers }: IncomingMessage): AppError | null {
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return malformed('The request must use HTTP/1.1 or HTTP/1.0.')
  const hosts = valuesOfHost(rawHeaders)
  if (hosts.length > 1) return malformed('The header host was sent more than once.', 'host')
  if (hosts.length === 0 && httpVersion === '1.1') return malformed('The header host is missing.', 'host')
  if (!HOST.test(hosts[0] ?? '')) return malformed('The header host is not a host with an optional port.', 'host')
  const { 'transfer-encoding': transferEncoding, expect } = headers
  if (transferEncoding !== undefined && transferEncoding.trim().toLowerCase() !== 'chunked')
    return malformed('The only supported transfer-encoding is chunked.', 'transfer-encoding')
  if (expect !== undefined && expect.toLowerCase() !== '100-continue')
    return new AppError('expectation_failed', { param: 'expect' })
  return null
}

/** Node's own `headers` keep only the first of several. */
function valuesOfHost(rawHeaders: readonly string[]): readonly string[] {
  const values: string[] = []
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'host') values.push(rawHeaders[index + 1] ?? '')
  }
  return values
}

/** Creates the error of an ambiguous request. Closes the connection: a proxy may read what follows differently. */
function malformed(message: string, param?: string): AppError {
  return new AppError('malformed_http', { message, ...(param && { param }), headers: { connection: 'close' } })
}

function findBodyViolation({
  'content-encoding': encoding,
  'content-type': type = '',
}: IncomingHttpHeaders): AppError | null {
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity')
    return new AppError('unsupported_content_encoding', { param: 'content-encoding' })
  const [, charset] = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(type) ?? []
  if (charset !== undefined && !/^(utf-?8|us-ascii|ascii|)$/i.test(charset))
    return new AppError('unsupported_content_type', {
      param: 'content-type',
      message: 'The body must be UTF-8. Send it with charset=utf-8 or without a charset.',
    })
  return null
}
