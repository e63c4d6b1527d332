import type { TextRequest } from '#shared/operations/text/text-request.ts'
import type { StreamProgress } from './event-stream.ts'
import { failureWithoutResponse, unknownOutcome } from './failures.ts'
import type { HttpOutcome } from './http.ts'
import type { ProviderFailure } from './provider.ts'

/** An exchange whose answer was a stream, and so was taken event by event. */
export type StreamedExchange = Exclude<HttpOutcome, { outcome: 'not_sent' }> & { readonly streamed: StreamProgress }

export function isStreamed(exchange: HttpOutcome): exchange is StreamedExchange {
  return exchange.outcome !== 'not_sent' && exchange.streamed !== undefined
}

/**
 * How a streamed answer ended: `complete`, `cut` by the time limit after it had begun to write, or with a failure. Only
 * the service's own limit makes a part of an answer deliverable: after a lost connection, a stream that stands still or
 * an error, the vendor did not do what is paid for.
 */
export function streamEnding(exchange: StreamedExchange): 'complete' | 'cut' | ProviderFailure {
  if (exchange.streamed === 'finished' || exchange.streamed === 'ended') return 'complete'
  if (exchange.streamed === 'unusable') return unknownOutcome('HTTP 200 with a malformed event')
  if (exchange.outcome === 'response') return unknownOutcome('HTTP 200 with a stream that ended early')
  if (exchange.timedOut === true && exchange.streamed === 'writing') return 'cut'
  return failureWithoutResponse(exchange)
}

/** Adds what the vendor reported of a stream until it ended without a result. */
export function withReported(failure: ProviderFailure, usage: ProviderFailure['usage']): ProviderFailure {
  return usage === undefined || failure.certainty === 'definite' ? failure : { ...failure, usage }
}

/** Returns the failure of an answer that the time limit cut before anything could be delivered. */
export function nothingInTime(exchange: StreamedExchange): ProviderFailure {
  return exchange.outcome === 'response'
    ? unknownOutcome('HTTP 200 with a stream that ended early')
    : failureWithoutResponse(exchange)
}

/** Returns whether an event is the error that ends a stream. An empty one beside other members says that there is none. */
export function hasError(event: unknown): boolean {
  if (typeof event !== 'object' || event === null || !('error' in event) || event.error === null) return false
  const { error, ...others } = event
  const isEmpty = !error || (typeof error === 'object' && Object.keys(error).length === 0)
  return !isEmpty || Object.keys(others).length === 0
}

/** Slower than any model that is worth selling. */
const SLOW_TOKENS_PER_SECOND = 16

/**
 * Returns whether an answer is requested as a stream: when it may outlast the time limit, since only of a stream the
 * part that has arrived by then can be delivered. A whole answer takes less processor time: 0.5 ms instead of 1 to 8.
 */
export function streamsAnswer({ max_output_tokens: tokens }: TextRequest, timeoutMs: number): boolean {
  return tokens > (SLOW_TOKENS_PER_SECOND * timeoutMs) / 1000
}
