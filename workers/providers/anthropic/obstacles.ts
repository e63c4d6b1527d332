import type { TextRequest } from '#shared/operations/text/text-request.ts'
import { modelTraits } from './model-traits.ts'

/**
 * Returns what this model rejects about the request although others accept it; `undefined` when there is nothing.
 * Leaving it out would change the answer.
 */
export function obstacleIn({ messages }: TextRequest, upstreamModel: string): string | undefined {
  const endsWithAssistant = messages.at(-1)?.role === 'assistant'
  return endsWithAssistant && !modelTraits(upstreamModel).continuesOwnTurn
    ? 'a conversation that ends with the assistant’s turn'
    : undefined
}
