import { jsonText } from '#shared/digests/canonical-json.ts'
import { callUrl, type KeyedConnection } from '../adapter.ts'
import type { TakeEvent } from '../event-stream.ts'
import { unknownOutcome } from '../failures.ts'
import type { HttpOutcome } from '../http.ts'
import { readLeniently } from '../lenient.ts'
import type { CallOptions, ProviderFailure } from '../provider.ts'
import { readJson } from '../wire-fields.ts'
import { failureOf } from './errors.ts'
import { type AnswerWire, answerWire, WRITTEN } from './wire.ts'

export type Answered =
  | { readonly outcome: 'answered'; readonly answer: AnswerWire; readonly mended: readonly string[] }
  | ProviderFailure

/**
 * Creates the call whose answer is sent as a whole: `POST {baseUrl}/v1beta/models/{model}:generateContent`, sent once.
 * `setupMessage` recognizes rejections of what the deployment sends with every request. Throws like `createPost`.
 */
export function createGenerateContent(dependencies: KeyedConnection, setupMessage: RegExp) {
  const post = createPost(dependencies, 'generateContent')
  return async (body: object, options: CallOptions, maximumResponseBytes: number): Promise<Answered> =>
    answerOf(await post(body, options, { maximumResponseBytes }), setupMessage)
}

/**
 * Creates the sender for one method: `generateContent`, or `streamGenerateContent?alt=sse` for an answer as a stream.
 * Throws immediately when the base URL, the key or the model is unusable, since no call could ever succeed.
 * Source: ai.google.dev/api/generate-content
 */
export function createPost(connection: KeyedConnection, method: string) {
  const { apiKey, upstreamModel, http } = connection
  const url = callUrl('Gemini', connection, `/v1beta/models/${upstreamModel}:${method}`)
  if (!/^[A-Za-z0-9._-]+$/.test(upstreamModel)) throw new Error('The Gemini model is not a model name')
  const headers = { 'content-type': 'application/json', 'x-goog-api-key': apiKey }

  return (
    body: object,
    options: CallOptions,
    limits: { readonly maximumResponseBytes: number; readonly onEvent?: TakeEvent },
  ): Promise<HttpOutcome> => http({ method: 'POST', url, headers, body: jsonText(body) }, { ...options, ...limits })
}

/** Reads an answer that was sent as a whole. */
export function answerOf(exchange: HttpOutcome, setupMessage?: RegExp): Answered {
  if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange, setupMessage)
  const body = readJson(exchange.bytes, WRITTEN)
  if (body === undefined) return unknownOutcome('HTTP 200 with a body that is not JSON')
  const { value: answer, mended } = readLeniently(answerWire, body)
  return answer === undefined
    ? unknownOutcome('HTTP 200 with a malformed answer')
    : { outcome: 'answered', answer, mended }
}
