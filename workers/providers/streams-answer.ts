import type { TextRequest } from '#shared/operations/text/text-request.ts'

/** Slower than any model that is worth selling. */
const SLOW_TOKENS_PER_SECOND = 16

/**
 * Returns whether an answer is requested as a stream: when it may outlast the time limit, since only of a stream the
 * part that has arrived by then can be delivered. A whole answer takes less processor time: 0.5 ms instead of 1 to 8.
 */
export function streamsAnswer({ max_output_tokens: tokens }: TextRequest, timeoutMs: number): boolean {
  return tokens > (SLOW_TOKENS_PER_SECOND * timeoutMs) / 1000
}
