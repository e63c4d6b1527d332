import { drawPng } from '../drawing/draw-png.ts'
import { ok, type VendorAnswer, type VendorRequest, type VendorRoute } from '../vendor-route.ts'
import { createPromptCache } from '../writing/prompt-cache.ts'
import type { TextCall, Thinking, TurnPart } from '../writing/text-call.ts'
import { textRoute } from '../writing/text-route.ts'
import type { WrittenAnswer } from '../writing/write-answer.ts'
import { generationOf, limitExceededBy } from './model-limits.ts'
import { refusal, refuseKey } from './refusals.ts'
import { type GeminiPart, requestWire } from './request-wire.ts'
import { answerChunks } from './stream-chunks.ts'
import { turnFault } from './turn-faults.ts'

interface GeminiCall extends TextCall {
  readonly draws: boolean
}

/**
 * Creates `POST /v1beta/models/{model}:generateContent` and its stream of events as documented for the Gemini API, for text,
 * vision, tools, JSON output and one image. Models are named `gemini-…`; those ending in `-image` draw, and all except the
 * lite ones think by default. A call that "goes wrong" is malformed.
 *
 * Source: ai.google.dev/api/generate-content
 */
export function createGenerateContentRoutes(): readonly VendorRoute[] {
  const cache = createPromptCache()
  return [false, true].map((isStreamed) =>
    textRoute<GeminiCall>(
      {
        path: `/v1beta/models/{model}:${isStreamed ? 'streamGenerateContent' : 'generateContent'}`,
        refuseKey,
        describe: ({ parameter: model }) => ({ model }),
        read: (request) => readCall(request, isStreamed),
        unreadableImage: invalid('Unable to process input image.'),
        write: (answer, call, digest) =>
          ok({ ...writeCandidates(answer, call), modelVersion: call.model, responseId: digest.slice(0, 22) }),
        stream: answerChunks,
      },
      cache,
    ),
  )
}

function invalid(message: string): VendorAnswer {
  return refusal(400, 'INVALID_ARGUMENT', message)
}

function readCall({ parameter: model, json }: VendorRequest, isStreamed: boolean): GeminiCall | VendorAnswer {
  if (!model.startsWith('gemini-')) return refusal(404, 'NOT_FOUND', `models/${model} is not found`)
  const { data: request, error } = requestWire.safeParse(json)
  if (request === undefined) return invalid(`Invalid JSON payload: ${error.message}`)
  const { contents, systemInstruction, generationConfig: config = {}, toolConfig, tools = [] } = request
  if (model.startsWith('gemini-3') && contents.some(({ parts }) => isUnsigned(parts)))
    return invalid('Function call is missing a thought_signature.')
  const fault = limitExceededBy(request, model) ?? turnFault(contents)
  if (fault !== undefined) return invalid(fault)
  const draws = config.responseModalities?.includes('IMAGE') === true
  if (draws !== model.endsWith('-image'))
    return invalid('The model does not support the requested response modalities.')
  const turns = [{ role: 'system', parts: systemInstruction?.parts ?? [] }, ...contents]
  const { mode, allowedFunctionNames: [only] = [] } = toolConfig?.functionCallingConfig ?? {}
  const isJson = config.responseMimeType === 'application/json'
  return {
    model,
    isStreamed,
    draws,
    turns: turns.map(({ role = 'user', parts }) => ({ role, parts: parts.map(partOf) })),
    tools: tools.flatMap(({ functionDeclarations }) =>
      functionDeclarations.map(({ parametersJsonSchema: parameters = {}, ...tool }) => ({ ...tool, parameters })),
    ),
    toolChoice: mode === 'NONE' ? 'none' : mode !== 'ANY' ? 'auto' : only === undefined ? 'required' : { name: only },
    responseFormat:
      config.responseJsonSchema === undefined
        ? { type: isJson ? 'json_object' : 'text' }
        : { type: 'json_schema', schema: config.responseJsonSchema },
    cache: cacheOf(generationOf(model)),
    maxOutputTokens: config.maxOutputTokens,
    stopSequences: config.stopSequences ?? [],
    thinking: thinkingOf(model, config.thinkingConfig ?? {}),
  }
}

/** Returns whether the first of parallel calls, which must carry the signature, has none. */
function isUnsigned(parts: readonly GeminiPart[]): boolean {
  const first = parts.find((part) => 'functionCall' in part)
  return first !== undefined && first.thoughtSignature === undefined
}

/**
 * Returns the implicit cache: "Implicit caching is enabled by default for all Gemini 2.5 and newer models", from a minimum
 * input of 2,048 tokens for Gemini 2.5 and 4,096 for Gemini 3 on. The input that fills it costs what any input costs. The
 * vendor documents no step in which it grows; this one is the simulator's.
 *
 * Source: ai.google.dev/gemini-api/docs/caching of 7 July 2026, read on 26 November 2026
 */
function cacheOf(generation: number): TextCall['cache'] {
  return generation < 2.5 ? undefined : { minimum: generation < 3 ? 2048 : 4096, step: 256 }
}

function partOf(part: GeminiPart): TurnPart {
  if ('text' in part) return { kind: 'text', content: part.text }
  if ('inlineData' in part) return { kind: 'image', content: part.inlineData.data }
  if ('functionResponse' in part) return { kind: 'result', content: resultText(part.functionResponse.response) }
  const { name, args = {} } = part.functionCall
  return { kind: 'call', content: `${name} ${JSON.stringify(args)}` }
}

function resultText(response: Readonly<Record<string, unknown>>): string {
  const value = response['output'] ?? response['error'] ?? response
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Returns how the model thinks: dynamically by default, and without a budget or level not at all where it is lite. */
function thinkingOf(
  model: string,
  { thinkingBudget, thinkingLevel }: { thinkingBudget?: number | undefined; thinkingLevel?: string | undefined },
): Thinking | undefined {
  const isOff = thinkingBudget === undefined && thinkingLevel === undefined && model.includes('lite')
  if (thinkingBudget === 0 || isOff || generationOf(model) < 2.5) return undefined
  const effort = (thinkingLevel?.toLowerCase() ?? 'medium') as Thinking['effort']
  return { effort, ...(thinkingBudget === undefined || thinkingBudget < 0 ? {} : { budgetTokens: thinkingBudget }) }
}

const FINISH_REASONS = {
  stop: 'STOP',
  stop_sequence: 'STOP',
  tool_calls: 'STOP',
  length: 'MAX_TOKENS',
  refused: 'SAFETY',
} as const satisfies Record<Exclude<WrittenAnswer['finishReason'], 'blocked'>, string>

/** A plausible count for one image; images have a fixed price. */
const TOKENS_PER_GENERATED_IMAGE = 1120

function writeCandidates(answer: WrittenAnswer, { draws, thinking }: GeminiCall): object {
  const { message, finishReason, inputTokens, cache, thinkingTokens } = answer
  const counted = (candidatesTokenCount: number, thoughtsTokenCount = 0) => ({
    promptTokenCount: inputTokens,
    ...(cache.cached === 0 ? {} : { cachedContentTokenCount: cache.cached }),
    ...(candidatesTokenCount === 0 ? {} : { candidatesTokenCount }),
    ...(thoughtsTokenCount === 0 ? {} : { thoughtsTokenCount }),
    totalTokenCount: inputTokens + candidatesTokenCount + thoughtsTokenCount,
  })
  if (finishReason === 'blocked')
    return { promptFeedback: { blockReason: 'PROHIBITED_CONTENT' }, usageMetadata: counted(0) }
  const withheld = finishReason === 'refused'
  if (draws && withheld) return { candidates: [{ finishReason: 'IMAGE_SAFETY', index: 0 }], usageMetadata: counted(0) }
  const parts = draws ? (answer.text === '' ? [] : [imagePart(message)]) : textParts(answer, thinking !== undefined)
  const isMalformed = answer.toolCalls.length > 0 && /\bgoes wrong\b/i.test(message)
  const candidate = {
    // An answer without text has no parts, as when thinking used up the limit.
    ...(withheld || isMalformed ? {} : { content: { role: 'model', ...(parts.length === 0 ? {} : { parts }) } }),
    finishReason: isMalformed ? 'MALFORMED_FUNCTION_CALL' : draws ? 'STOP' : FINISH_REASONS[finishReason],
    index: 0,
  }
  const written = withheld ? 0 : answer.outputTokens - thinkingTokens
  const usageMetadata = draws ? counted(TOKENS_PER_GENERATED_IMAGE) : counted(written, thinkingTokens)
  return { candidates: [candidate], usageMetadata }
}

function imagePart(prompt: string): object {
  return { inlineData: { mimeType: 'image/png', data: drawPng(prompt).toString('base64') } }
}

/** Returns the parts of an answer, of which the first carries the signature of a model that thinks. */
function textParts({ message, text, toolCalls }: WrittenAnswer, isSigned: boolean): object[] {
  const parts = [
    ...(text === null || text === '' ? [] : [{ text }]),
    ...toolCalls.map(({ name, arguments: args }) => ({ functionCall: { name, args } })),
  ]
  const thoughtSignature = Buffer.from(`thought of ${message}`).toString('base64').slice(0, 44)
  return parts.map((part, index) => (index === 0 && isSigned ? { ...part, thoughtSignature } : part))
}
