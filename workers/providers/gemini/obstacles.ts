import type { TextRequest } from '#shared/operations/text/text-request.ts'
import { modelTraits } from './model-traits.ts'

/** The vendor's limit (ai.google.dev/api/generate-content, GenerationConfig.stopSequences). */
const MAXIMUM_STOP_SEQUENCES = 5

/**
 * Returns what this model rejects about the request although others accept it; `undefined` when there is nothing.
 * Leaving any of it out would change the answer, or what it costs.
 */
export function obstacleIn(request: TextRequest, upstreamModel: string): string | undefined {
  const { tools = [], response_format: format, stop_sequences: stops = [] } = request
  const traits = modelTraits(upstreamModel)
  if (stops.length > MAXIMUM_STOP_SEQUENCES) return `more than ${MAXIMUM_STOP_SEQUENCES} stop sequences`
  const wantsJson = format !== undefined && format.type !== 'text'
  if (tools.length > 0 && wantsJson && !traits.combinesToolsWithJson) return 'tools together with a JSON answer'
  const endsWithModel = request.messages.at(-1)?.role === 'assistant'
  return endsWithModel && !traits.continuesOwnTurn ? 'a conversation that ends with the model’s turn' : undefined
}
