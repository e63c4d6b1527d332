import type { TakeEvent } from '../event-stream.ts'
import type { HttpOutcome, HttpRequest, SendHttp } from '../http.ts'
import type { CallOptions } from '../provider.ts'
import { isStreamedBody, type StreamedBody } from '../streamed-body.ts'

/** The dependencies of every provider of this API. */
export interface OpenAiCompatibleDependencies {
  /** Up to and with the version: `https://api.openai.com/v1`, `http://10.0.0.5:8000/v1`. */
  readonly baseUrl: string
  /** Absent for a self-hosted server that needs none. */
  readonly apiKey?: string | undefined
  /** The server's model name. */
  readonly upstreamModel: string
  readonly http: SendHttp
}

/** One `POST {baseUrl}{path}` with the key as bearer token; an object goes as JSON, a form as multipart. */
export type Post = (
  body: StreamedBody | Readonly<Record<string, unknown>>,
  options: CallOptions & { readonly maximumResponseBytes: number; readonly onEvent?: TakeEvent },
) => Promise<HttpOutcome>

/**
 * Creates the sender for one path. Throws immediately when the base URL or the key is unusable, since no call could
 * succeed.
 */
export function createPost({ baseUrl, apiKey, http }: OpenAiCompatibleDependencies, path: string): Post {
  const url = `${baseUrl.replace(/\/+$/, '')}${path}`
  if (!URL.canParse(url)) throw new Error('The base URL of the OpenAI-compatible server is not a URL')
  // Checked here because `fetch` quotes an invalid header value in its message.
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new Error('The key of the OpenAI-compatible server must be visible ASCII characters')
  }
  const authorization: Record<string, string> = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }

  return (body, { signal, ...limits }) => {
    const request: HttpRequest = isStreamedBody(body)
      ? { method: 'POST', url, headers: authorization, body }
      : {
          method: 'POST',
          url,
          headers: { ...authorization, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }
    return http(request, { ...limits, ...(signal === undefined ? {} : { signal }) })
  }
}

/**
 * Parses the body as JSON; `undefined` when it is not JSON. The parser's message quotes the body, so it is discarded.
 */
export function readJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    return undefined
  }
}

/** Reads the server's id of the call: the header that OpenAI's support asks for, else the body's `id`. */
export function callId(headers: Headers, id?: string | null): { vendorRequestId?: string } {
  const name = [headers.get('x-request-id'), id].find((each) => /^[\w.:-]{1,128}$/.test(each ?? ''))
  return typeof name === 'string' ? { vendorRequestId: name } : {}
}
