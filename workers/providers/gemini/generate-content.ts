import { unknownOutcome } from '../failures.ts'
import type { SendHttp } from '../http.ts'
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
 * Creates the call that text and images share: `POST {baseUrl}/v1beta/models/{model}:generateContent`, sent once.
 *
 * Throws immediately when the base URL, the key or the model is unusable, since no call could ever succeed.
 * Source: ai.google.dev/api/generate-content
 */
export function createGenerateContent({ baseUrl, apiKey, upstreamModel, http }: GeminiDependencies) {
  const url = `${baseUrl.replace(/\/+$/, '')}/v1beta/models/${upstreamModel}:generateContent`
  if (!URL.canParse(url)) throw new Error('The Gemini base URL is not a URL')
  if (!/^[A-Za-z0-9._-]+$/.test(upstreamModel)) throw new Error('The Gemini model is not a model name')
  // Checked here because `fetch` quotes an invalid header value in its message.
  if (!/^[\x21-\x7e]+$/.test(apiKey)) throw new Error('The Gemini key must be visible ASCII characters')
  const headers = { 'content-type': 'application/json', 'x-goog-api-key': apiKey }

  return async (body: object, { signal, timeoutMs }: CallOptions, maximumResponseBytes: number): Promise<Answered> => {
    const exchange = await http(
      { method: 'POST', url, headers, body: JSON.stringify(body) },
      { timeoutMs, maximumResponseBytes, ...(signal === undefined ? {} : { signal }) },
    )
    if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange)
    return readAnswer(exchange.bytes)
  }
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
