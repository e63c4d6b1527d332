import { Agent, fetch } from 'undici'

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
) => Promise<Response>

/**
 * Creates the `fetch` of provider calls. Node's own aborts when no header arrives for five minutes, and a vendor sends
 * none before a whole answer is complete; each call has its own time limit. Node's `fetch` accepts only the agents of
 * the undici version that it contains, so undici's is used.
 */
export function createProviderFetch(): ProviderFetch {
  // Over HTTP/2 one reset would end the calls of all payers, and calls on a closing connection would be sent again.
  const dispatcher = new Agent({ allowH2: false, headersTimeout: 0, bodyTimeout: 0 })
  return (url, request) => fetch(url, { ...request, dispatcher })
}
