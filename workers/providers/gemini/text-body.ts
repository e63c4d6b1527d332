import type { TextPart, TextRequest } from '#shared/operations/text/text-request.ts'
import { geminiSchema } from './json-schema.ts'

/**
 * How much the model may think before it writes; absent: the vendor's default. Models of generation 2.5 use a budget.
 */
export type GeminiThinking =
  | { readonly budgetTokens: number }
  | { readonly level: 'minimal' | 'low' | 'medium' | 'high' }

interface Content {
  readonly role: 'user' | 'model'
  readonly parts: object[]
}

/**
 * Gemini 3 rejects a function call of the current turn that is sent back without its thought signature. Callers of
 * other API families never have one, and for such calls the vendor documents this value. Source:
 * ai.google.dev/gemini-api/docs/thought-signatures
 */
const UNSIGNED_CALL = 'skip_thought_signature_validator'

/**
 * Builds the body of `generateContent` for a text request whose images are inline.
 * Source: ai.google.dev/api/generate-content and ai.google.dev/gemini-api/docs/function-calling
 */
export function textBody(
  request: TextRequest,
  { upstreamModel, thinking }: { upstreamModel: string; thinking?: GeminiThinking | undefined },
): object {
  const { system, tools = [] } = request
  return {
    ...(system === undefined || system === '' ? {} : { systemInstruction: { parts: [{ text: system }] } }),
    contents: contentsOf(request, !/^gemini-[12]\b/.test(upstreamModel)),
    ...(tools.length === 0
      ? {}
      : { tools: [{ functionDeclarations: tools.map(declaration) }], toolConfig: toolConfig(request.tool_choice) }),
    generationConfig: generationConfig(request, thinking),
  }
}

/** Merges neighbors of the same role into one content; calls and their results must stay together. */
function contentsOf({ messages }: TextRequest, signCalls: boolean): Content[] {
  const toolNames = new Map<string, string>()
  const contents: Content[] = []
  for (const { role, parts } of messages) {
    const vendorRole: Content['role'] = role === 'assistant' ? 'model' : 'user'
    const previous = contents.at(-1)
    const content: Content = previous?.role === vendorRole ? previous : { role: vendorRole, parts: [] }
    for (const part of parts) {
      if (part.type === 'tool_call') toolNames.set(part.id, part.name)
      // Only the first of parallel calls carries the signature.
      const signed = signCalls && part.type === 'tool_call' && !content.parts.some((known) => 'functionCall' in known)
      const vendorPart = partOf(part, toolNames)
      if (vendorPart !== undefined)
        content.parts.push(signed ? { ...vendorPart, thoughtSignature: UNSIGNED_CALL } : vendorPart)
    }
    if (content !== previous && content.parts.length > 0) contents.push(content)
  }
  return contents
}

function partOf(part: TextPart, toolNames: ReadonlyMap<string, string>): object | undefined {
  switch (part.type) {
    case 'text':
      return part.text === '' ? undefined : { text: part.text }
    case 'image':
      // Remote images were rejected earlier.
      return part.source.kind === 'inline'
        ? { inlineData: { mimeType: part.source.media_type, data: part.source.base64 } }
        : undefined
    case 'tool_call':
      return { functionCall: { id: part.id, name: part.name, args: readArguments(part.arguments_json) } }
    case 'tool_result':
      return {
        functionResponse: {
          id: part.tool_call_id,
          name: part.name ?? toolNames.get(part.tool_call_id) ?? 'unknown_function',
          response: part.is_error === true ? { error: part.text } : { output: part.text },
        },
      }
  }
}

function readArguments(text: string): object {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  } catch {
    // Sent to the model as it is, below.
  }
  return text.trim() === '' ? {} : { arguments: text }
}

function declaration({ name, description, parameters }: NonNullable<TextRequest['tools']>[number]): object {
  const schema = geminiSchema(parameters)
  return {
    name,
    ...(description === undefined ? {} : { description }),
    ...(schema === undefined ? {} : { parametersJsonSchema: schema }),
  }
}

function toolConfig(choice: TextRequest['tool_choice']): object {
  if (typeof choice === 'object') return { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [choice.name] } }
  return { functionCallingConfig: { mode: choice === 'none' ? 'NONE' : choice === 'required' ? 'ANY' : 'AUTO' } }
}

/**
 * Returns the generation options. `maxOutputTokens` bounds hidden thinking and visible text together
 * (ai.google.dev/gemini-api/docs/thinking).
 */
function generationConfig(request: TextRequest, thinking: GeminiThinking | undefined): object {
  const { response_format: format } = request
  const schema = format?.type === 'json_schema' ? geminiSchema(format.schema) : undefined
  const config = {
    maxOutputTokens: request.max_output_tokens,
    temperature: request.temperature,
    topP: request.top_p,
    topK: request.top_k === undefined ? undefined : Math.max(1, Math.round(request.top_k)),
    stopSequences: request.stop_sequences,
    // The vendor's seed has 32 bits; folding keeps equal seeds equal.
    seed: request.seed === undefined ? undefined : request.seed | 0,
    presencePenalty: request.presence_penalty,
    frequencyPenalty: request.frequency_penalty,
    responseMimeType: format === undefined || format.type === 'text' ? undefined : 'application/json',
    responseJsonSchema: schema,
    thinkingConfig: thinking === undefined ? undefined : thinkingConfig(thinking),
  }
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined))
}

function thinkingConfig(thinking: GeminiThinking): object {
  return 'level' in thinking ? { thinkingLevel: thinking.level } : { thinkingBudget: thinking.budgetTokens }
}
