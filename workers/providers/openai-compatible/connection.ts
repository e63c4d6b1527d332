import type { HttpOutcome, HttpRequest, SendHttp } from '../http.ts'
import type { CallOptions } from '../provider.ts'

/** What every adapter of this wire needs. */
export interface OpenAiCompatibleDependencies {
  /** Up to and with the version: `https://api.openai.com/v1`, `http://10.0.0.5:8000/v1`. */
  readonly baseUrl: string
  /** Absent for a self-hosted server that asks for none. */
  readonly apiKey?: string | undefined
  /** The server's model name. */
  readonly upstreamModel: string
  readonly http: SendHttp
}

/** One `POST {baseUrl}{path}` with the key as bearer token; an object goes as JSON, a form as multipart. */
export type Post = (
  body: FormData | Readonly<Record<string, unknown>>,
  options: CallOptions & { readonly maximumResponseBytes: number },
) => Promise<HttpOutcome>

/** Throws at once when the base URL is no URL or the key cannot be a header value, since no call could ever succeed. */
export function createPost({ baseUrl, apiKey, http }: OpenAiCompatibleDependencies, path: string): Post {
  const url = `${baseUrl.replace(/\/+$/, '')}${path}`
  if (!URL.canParse(url)) throw new Error('The base URL of the OpenAI-compatible server is not a URL')
  // Checked here because `fetch` quotes an invalid header value in its message.
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new Error('The key of the OpenAI-compatible server must be visible ASCII characters')
  }
  const authorization: Record<string, string> = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }

  return (body, { signal, timeoutMs, maximumResponseBytes }) => {
    const request: HttpRequest =
      body instanceof FormData
        ? { method: 'POST', url, headers: authorization, body }
        : {
            method: 'POST',
            url,
            headers: { ...authorization, 'content-type': 'application/json' },
            body: JSON.stringify(body),
          }
    return http(request, { timeoutMs, maximumResponseBytes, ...(signal === undefined ? {} : { signal }) })
  }
}

/** The body as JSON; `undefined` when it is none. The parser's own message quotes the body, so nobody gets to see it. */
export function readJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return undefined
  }
}

/** The server's name for the call: the header that OpenAI's support asks for, else the body's `id`. */
export function callName(headers: Headers, id?: string | null): { vendorRequestId?: string } {
  const name = [headers.get('x-request-id'), id].find((each) => /^[\w.:-]{1,128}$/.test(each ?? ''))
  return typeof name === 'string' ? { vendorRequestId: name } : {}
}
