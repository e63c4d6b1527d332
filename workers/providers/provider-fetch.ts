import { type Duplex, pipeline, Readable } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { Agent, request } from 'undici'

/** The part of `fetch` that provider calls use. */
export type ProviderFetch = (
  url: string,
  request: {
    readonly method: 'GET' | 'POST'
    readonly headers: Readonly<Record<string, string>>
    readonly body?: ReadableStream<Uint8Array> | string
    /** Required with a stream. */
    readonly duplex?: 'half'
    readonly redirect: 'manual'
    readonly signal: AbortSignal
  },
) => Promise<ProviderResponse>

/** The part of a `Response` that provider calls use. Canceling the body closes the connection. */
export type ProviderResponse = Pick<Response, 'status' | 'headers' | 'body'>

/** What `fetch` sends unless a request says otherwise. */
const HEADERS = { accept: '*/*', 'accept-encoding': 'gzip, deflate, br', 'user-agent': 'undici' }

const DECODERS: ReadonlyMap<string, () => Duplex> = new Map([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
])

/**
 * Creates the `fetch` of provider calls. It is undici's `request`, which takes half the processor time of its `fetch`.
 * Node's own aborts when no header arrives for five minutes, and a vendor sends none before a whole answer is complete;
 * each call has its own time limit.
 */
export function createProviderFetch(): ProviderFetch {
  // Over HTTP/2 one reset would end the calls of all payers, and calls on a closing connection would be sent again.
  const dispatcher = new Agent({ allowH2: false, headersTimeout: 0, bodyTimeout: 0 })
  return async (url, { method, headers, body, signal }) => {
    const response = await request(url, {
      dispatcher,
      method,
      headers: { ...HEADERS, ...headers },
      body: body instanceof ReadableStream ? Readable.from(body) : (body ?? null),
      signal,
    })
    const received = headersOf(response.headers)
    return {
      status: response.statusCode,
      headers: received,
      body: Readable.toWeb(decoded(response.body, received)) as ReadableStream<Uint8Array>,
    }
  }
}

function headersOf(received: Readonly<Record<string, string | string[] | undefined>>): Headers {
  const headers = new Headers()
  for (const [name, values] of Object.entries(received))
    for (const value of [values ?? []].flat()) headers.append(name, value)
  return headers
}

/** Decompresses a body, as `fetch` does; one of another encoding is left as it is. */
function decoded(body: Readable, headers: Headers): Readable {
  const decoder = DECODERS.get(headers.get('content-encoding')?.trim().toLowerCase() ?? '')?.()
  // A failure of either one ends the other, which is what the reader sees.
  return decoder ? pipeline(body, decoder, () => undefined) : body
}
