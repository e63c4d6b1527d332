import type { TakeEvent } from '../event-stream.ts'
import { unknownOutcome } from '../failures.ts'
import type { HttpOutcome, SendHttp } from '../http.ts'
import type { CallOptions, ProviderFailure } from '../provider.ts'
import { failureOf } from './errors.ts'
import { type AnswerWire, answerWire } from './wire.ts'

export interface GeminiDependencies {
  /** Origin, with a path if the API is mounted below one: `https://generativelanguage.googleapis.com`. */
  readonly baseUrl: string
  readonly apiKey: string
  /** The vendor's model name without `models/`: `gemini-2.5-flash`. */
  readonly upstreamModel: string
  readonly http: SendHttp
}

export type Answered = { readonly outcome: 'answered'; readonly answer: AnswerWire } | ProviderFailure

/**
 * Creates the call whose answer is sent as a whole: `POST {baseUrl}/v1beta/models/{model}:generateContent`, sent once.
 * `setupMessage` recognizes rejections of what the deployment sends with every request. Throws like `createPost`.
 */
export function createGenerateContent(dependencies: GeminiDependencies, setupMessage: RegExp) {
  const post = createPost(dependencies, 'generateContent')
  return async (body: object, options: CallOptions, maximumResponseBytes: number): Promise<Answered> =>
    answerOf(await post(body, options, { maximumResponseBytes }), setupMessage)
}

/**
 * Creates the sender for one method: `generateContent`, or `streamGenerateContent?alt=sse` for an answer as a stream.
 * Throws immediately when the base URL, the key or the model is unusable, since no call could ever succeed.
 * Source: ai.google.dev/api/generate-content
 */
export function createPost({ baseUrl, apiKey, upstreamModel, http }: GeminiDependencies, method: string) {
  const url = `${baseUrl.replace(/\/+$/, '')}/v1beta/models/${upstreamModel}:${method}`
  if (!URL.canParse(url)) throw new Error('The Gemini base URL is not a URL')
  if (!/^[A-Za-z0-9._-]+$/.test(upstreamModel)) throw new Error('The Gemini model is not a model name')
  // Checked here because `fetch` quotes an invalid header value in its message.
  if (!/^[\x21-\x7e]+$/.test(apiKey)) throw new Error('The Gemini key must be visible ASCII characters')
  const headers = { 'content-type': 'application/json', 'x-goog-api-key': apiKey }

  return (
    body: object,
    { signal, timeoutMs }: CallOptions,
    limits: { readonly maximumResponseBytes: number; readonly onEvent?: TakeEvent },
  ): Promise<HttpOutcome> =>
    http(
      { method: 'POST', url, headers, body: JSON.stringify(body) },
      { timeoutMs, ...limits, ...(signal === undefined ? {} : { signal }) },
    )
}

/** Reads an answer that was sent as a whole. */
export function answerOf(exchange: HttpOutcome, setupMessage?: RegExp): Answered {
  if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange, setupMessage)
  return readAnswer(exchange.bytes)
}

function readAnswer(bytes: Uint8Array): Answered {
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    // The parser's message quotes the body, which is the output.
    return unknownOutcome('HTTP 200 with a body that is not JSON')
  }
  const answer = answerWire.safeParse(body)
  return answer.success
    ? { outcome: 'answered', answer: answer.data }
    : unknownOutcome('HTTP 200 with a malformed answer')
}
