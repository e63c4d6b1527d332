import { jsonText } from '#shared/digests/canonical-json.ts'
import { type OpenConnection, urlBelow } from '../adapter.ts'
import type { TakeEvent } from '../event-stream.ts'
import type { HttpOutcome } from '../http.ts'
import type { CallOptions } from '../provider.ts'
import { isStreamedBody, type StreamedBody } from '../streamed-body.ts'

/** One `POST {baseUrl}{path}` with the key as bearer token; an object goes as JSON, a form as multipart. */
export type Post = (
  body: StreamedBody | Readonly<Record<string, unknown>>,
  options: CallOptions & { readonly maximumResponseBytes: number; readonly onEvent?: TakeEvent },
) => Promise<HttpOutcome>

/**
 * Creates the sender for one path. Throws immediately when the base URL or the key is unusable, since no call could
 * succeed.
 */
export function createPost({ baseUrl, apiKey, http }: OpenConnection, path: string): Post {
  const url = urlBelow(baseUrl, path)
  if (!URL.canParse(url)) throw new Error('The base URL of the OpenAI-compatible server is not a URL')
  // Checked here because `fetch` quotes an invalid header value in its message.
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new Error('The key of the OpenAI-compatible server must be visible ASCII characters')
  }
  const authorization: Record<string, string> = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }

  return (body, limits) => {
    const content = isStreamedBody(body)
      ? { headers: authorization, body }
      : { headers: { ...authorization, 'content-type': 'application/json' }, body: jsonText(body) }
    return http({ method: 'POST', url, ...content }, limits)
  }
}

/** Reads the server's id of the call: the header that OpenAI's support asks for, else the body's `id`. */
export function callId(headers: Headers, id?: string | null): { vendorRequestId?: string } {
  const name = [headers.get('x-request-id'), id].find((each) => /^[\w.:-]{1,128}$/.test(each ?? ''))
  return typeof name === 'string' ? { vendorRequestId: name } : {}
}
