import type { Effort } from '#shared/operations/text/effort.ts'
import type { TextPart, TextRequest } from '#shared/operations/text/text-request.ts'
import { described } from '../json-schema.ts'
import { budgetWithin, effortWithin } from '../output-limit.ts'
import { argumentsObject } from '../text-answer.ts'
import { withPairs } from '../turns.ts'
import { geminiSchema } from './json-schema.ts'
import { type GeminiModelTraits, type GeminiThinking, modelTraits } from './model-traits.ts'

/** The deployment's settings of a text body; what is absent follows from the model's name. */
export interface GeminiTextSettings {
  /** The vendor's model name without `models/`: `gemini-2.5-flash`. */
  readonly upstreamModel: string
  /** The most that the model may think before it writes, for requests with a high output limit. */
  readonly thinking?: GeminiThinking | undefined
  /** The lowest thinking level that the model supports. */
  readonly lowestLevel?: Effort | undefined
  /** Whether temperature, topP and topK are sent. */
  readonly samples?: boolean | undefined
}

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
export function textBody(request: TextRequest, settings: GeminiTextSettings): object {
  const { system, tools = [] } = request
  const traits = modelTraits(settings.upstreamModel)
  return {
    ...(system === undefined || system === '' ? {} : { systemInstruction: { parts: [{ text: system }] } }),
    contents: contentsOf(request, traits.needsSignatures),
    ...(tools.length === 0
      ? {}
      : { tools: [{ functionDeclarations: tools.map(declaration) }], toolConfig: toolConfig(request) }),
    generationConfig: generationConfig(request, settings, traits),
  }
}

/** Merges neighbors of the same role into one content; calls and their results must stay together. */
function contentsOf({ messages }: TextRequest, signCalls: boolean): Content[] {
  const toolNames = new Map<string, string>()
  const contents: Content[] = []
  for (const { role, parts } of withPairs(messages, { beginsWithUser: true })) {
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
      return { functionCall: { id: part.id, name: part.name, args: argumentsObject(part.arguments_json) } }
    case 'tool_result':
      return {
        functionResponse: {
          id: part.tool_call_id,
          name: part.name ?? toolNames.get(part.tool_call_id),
          response: part.is_error === true ? { error: part.text } : { output: part.text },
        },
      }
  }
}

function declaration({ name, description, parameters }: NonNullable<TextRequest['tools']>[number]): object {
  const schema = geminiSchema(parameters)
  return {
    name,
    ...(description === undefined ? {} : { description }),
    ...(schema === undefined ? {} : { parametersJsonSchema: schema }),
  }
}

/**
 * Returns how tools may be called. `VALIDATED` leaves the choice to the model, as `AUTO` does, and keeps every call to its
 * declaration, which is what `strict` asks for; `ANY` does anyway. Source: npm package `@google/genai` 3.1,
 * FunctionCallingConfigMode, and ai.google.dev/gemini-api/docs/function-calling, read on 28 November 2026.
 */
function toolConfig({ tool_choice: choice, tools = [] }: TextRequest): object {
  if (typeof choice === 'object') return { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [choice.name] } }
  const ownChoice = tools.some(({ strict }) => strict === true) ? 'VALIDATED' : 'AUTO'
  return { functionCallingConfig: { mode: choice === 'none' ? 'NONE' : choice === 'required' ? 'ANY' : ownChoice } }
}

/**
 * Returns the generation options. `maxOutputTokens` bounds hidden thinking and visible text together
 * (ai.google.dev/gemini-api/docs/thinking). Penalties are hints and left out, because every current model rejects them
 * ("Penalty is not enabled for this model").
 */
function generationConfig(request: TextRequest, settings: GeminiTextSettings, traits: GeminiModelTraits): object {
  const { response_format: format } = request
  const { samples = traits.samples } = settings
  const schema = format?.type === 'json_schema' ? described(geminiSchema(format.schema), format.description) : undefined
  const config = {
    maxOutputTokens: request.max_output_tokens,
    ...(samples ? sampling(request) : {}),
    stopSequences: request.stop_sequences,
    // The vendor's seed has 32 bits; folding keeps equal seeds equal.
    seed: request.seed === undefined ? undefined : request.seed | 0,
    responseMimeType: format === undefined || format.type === 'text' ? undefined : 'application/json',
    responseJsonSchema: schema,
    thinkingConfig: thinkingConfig(request, settings, traits),
  }
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined))
}

function sampling({ temperature, top_p: topP, top_k: topK }: TextRequest): object {
  return { temperature, topP, topK: topK === undefined ? undefined : Math.max(1, Math.round(topK)) }
}

/**
 * Limits thinking so that the output limit leaves room for text, unless the request says how hard to think; `undefined`
 * leaves it to the vendor's default.
 */
function thinkingConfig(
  request: TextRequest,
  { thinking, lowestLevel }: GeminiTextSettings,
  traits: GeminiModelTraits,
): object | undefined {
  const limit = thinking ?? traits.thinking
  if (limit === 'none') return undefined
  if ('budgetTokens' in limit) {
    return { thinkingBudget: budgetWithin(request, limit.budgetTokens, traits.budgets) }
  }
  const thinkingLevel = effortWithin(request, { highest: limit.level, lowest: lowestLevel ?? traits.lowestLevel })
  return thinkingLevel === undefined ? undefined : { thinkingLevel }
}
