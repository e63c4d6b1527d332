import { JsonSource } from '#shared/json/json-source.ts'
import type { TextTerms } from './text-quote.ts'
import type { TextPart, TextRequest } from './text-request.ts'
import { inputTokenBound } from './text-tokens.ts'

interface EffectiveText {
  readonly request: TextRequest
}

/**
 * Returns how a text request may be written under one digest: schemas, and the calls that `digestedCalls` puts into
 * canonical form, have more than one spelling.
 */
export function textSpelling(digestedCalls: (request: TextRequest) => TextRequest) {
  return {
    digested: <Effective extends EffectiveText>(effective: Effective): Effective | null => {
      const { tools = [], response_format: format } = effective.request
      const request = digestedCalls(effective.request)
      const hasSchema = tools.length > 0 || format?.type === 'json_schema'
      return hasSchema || request !== effective.request ? { ...effective, request } : null
    },
    size: ({ request }: EffectiveText) => inputTokenBound(request),
    quotedSize: (terms: TextTerms) => terms.maximum_input_tokens,
  }
}

/** Returns the request with the arguments of its calls in canonical form, or the same request when it has no call. */
export function withCanonicalArguments(request: TextRequest): TextRequest {
  if (!request.messages.some(({ parts }) => parts.some(isCall))) return request
  const messages = request.messages.map(({ role, parts }) => ({ role, parts: parts.map(canonicalCall) }))
  return { ...request, messages }
}

function isCall(part: TextPart): part is Extract<TextPart, { type: 'tool_call' }> {
  return part.type === 'tool_call'
}

function canonicalCall(part: TextPart): TextPart {
  return isCall(part) ? { ...part, arguments_json: new JsonSource(part.arguments_json).canonicalText() } : part
}
