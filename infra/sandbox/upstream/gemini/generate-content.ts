import { createHash } from 'node:crypto'
import { drawPng } from '../drawing/draw-png.ts'
import type { VendorAnswer, VendorRequest, VendorRoute } from '../vendor-route.ts'
import { countTokens } from '../writing/count-tokens.ts'
import { loggedFields, readJson } from '../writing/json-request.ts'
import { createPromptCache, type PromptCache } from '../writing/prompt-cache.ts'
import { conversationBlocks, readConversation, type Turn, type TurnPart } from '../writing/read-conversation.ts'
import { type Thinking, type WritingTask, type WrittenAnswer, writeAnswer } from '../writing/write-answer.ts'
import { generationOf, limitExceededBy } from './model-limits.ts'
import { refusal, refuseKey } from './refusals.ts'
import { type GeminiPart, type GeminiRequest, requestWire } from './request-wire.ts'
import { answerChunks } from './stream-chunks.ts'
import { turnFault } from './turn-faults.ts'

/** A plausible count for one image; images have a fixed price. */
const TOKENS_PER_GENERATED_IMAGE = 1120

/**
 * Creates `POST /v1beta/models/{model}:generateContent` as documented for the Gemini API, for text, vision, tools, JSON output
 * and one image. Models are named `gemini-…`; those ending in `-image` draw, and all except the lite ones think by default. A
 * prompt with "please block" is blocked, an answer to "please refuse" is withheld, and a call that "goes wrong" is malformed.
 *
 * Source: ai.google.dev/api/generate-content
 */
export function createGenerateContentRoutes(): readonly VendorRoute[] {
  const cache = createPromptCache()
  return [
    routeOf('/v1beta/models/{model}:generateContent', cache, (_query, answer) => answer),
    // A stream: of events with `alt=sse`, and otherwise of the items of a JSON array.
    routeOf('/v1beta/models/{model}:streamGenerateContent', cache, (query, answer) =>
      query.get('alt') === 'sse' ? { ...answer, stream: answerChunks } : { ...answer, body: [answer.body] },
    ),
  ]
}

function routeOf(
  path: string,
  cache: PromptCache,
  formed: (query: URLSearchParams, answer: VendorAnswer) => VendorAnswer,
): VendorRoute {
  return {
    path,
    refuseKey,
    describe: ({ parameter: model, body }) => ({ model, ...loggedFields(body) }),
    answer: (request) => {
      const generated = generate(request, cache)
      return generated.status === 200 ? formed(request.query, generated) : generated
    },
    emptied: (body) => ({
      ...body,
      candidates: [{ content: { role: 'model', parts: [] }, finishReason: 'STOP', index: 0 }],
    }),
  }
}

function generate({ parameter: model, body }: VendorRequest, cache: PromptCache): VendorAnswer {
  if (!model.startsWith('gemini-')) return refusal(404, 'NOT_FOUND', `models/${model} is not found`)
  const parsed = requestWire.safeParse(readJson(body))
  if (!parsed.success) return refusal(400, 'INVALID_ARGUMENT', `Invalid JSON payload: ${parsed.error.message}`)
  const request = parsed.data
  const unsigned = model.startsWith('gemini-3') && request.contents.some(({ parts }) => isUnsigned(parts))
  if (unsigned) return refusal(400, 'INVALID_ARGUMENT', 'Function call is missing a thought_signature.')
  const limit = limitExceededBy(request, model) ?? turnFault(request.contents)
  if (limit !== undefined) return refusal(400, 'INVALID_ARGUMENT', limit)
  const turns = request.contents.map(({ role, parts }): Turn => ({ role: role ?? 'user', parts: parts.map(partOf) }))
  const task = taskOf(model, request, turns)
  if (task === undefined) return refusal(400, 'INVALID_ARGUMENT', 'Unable to process input image.')
  const responseId = createHash('sha256').update(body).digest('base64url').slice(0, 22)
  const known = { modelVersion: model, responseId }
  if (/\bplease block\b/i.test(task.texts.at(-1) ?? '')) {
    const { inputTokens } = writeAnswer(task)
    const usageMetadata = { promptTokenCount: inputTokens, totalTokenCount: inputTokens }
    return ok({ promptFeedback: { blockReason: 'PROHIBITED_CONTENT' }, usageMetadata, ...known })
  }
  const asksForImage = request.generationConfig?.responseModalities?.includes('IMAGE') === true
  if (asksForImage !== model.endsWith('-image')) {
    return refusal(400, 'INVALID_ARGUMENT', 'The model does not support the requested response modalities.')
  }
  return ok({ ...(asksForImage ? draw(task) : write(task, cachedTokens(cache, model, request, turns))), ...known })
}

/** The vendor documents no step in which implicit caching grows; this one is the simulator's. */
const CACHE_STEP_TOKENS = 256

/**
 * Reads the implicit cache: "Implicit caching is enabled by default for all Gemini 2.5 and newer models", from a minimum
 * input of 2,048 tokens for Gemini 2.5 and 4,096 for Gemini 3 on. The input that fills it costs what any input costs.
 *
 * Source: ai.google.dev/gemini-api/docs/caching of 7 July 2026, read on 26 November 2026
 */
function cachedTokens(cache: PromptCache, model: string, request: GeminiRequest, turns: readonly Turn[]): number {
  const generation = generationOf(model)
  if (generation < 2.5) return 0
  const { tools = [], systemInstruction } = request
  const blocks = [
    ...tools.map((tool) => ({ label: 'tool', text: JSON.stringify(tool) })),
    ...conversationBlocks([{ role: 'system', parts: (systemInstruction?.parts ?? []).map(partOf) }, ...turns]),
  ]
  return cache.readSteps(model, blocks, { minimum: generation < 3 ? 2048 : 4096, step: CACHE_STEP_TOKENS })
}

function partOf(part: GeminiPart): TurnPart {
  if ('text' in part) return { kind: 'text', content: part.text }
  if ('inlineData' in part) return { kind: 'image', content: part.inlineData.data }
  if ('functionResponse' in part) return { kind: 'result', content: resultText(part.functionResponse.response) }
  const { name, args = {} } = part.functionCall
  return { kind: 'call', content: `${name} ${JSON.stringify(args)}` }
}

function ok(body: object): VendorAnswer {
  return { status: 200, accepted: true, body }
}

/** Returns whether the first of parallel calls, which must carry the signature, has none. */
function isUnsigned(parts: readonly GeminiPart[]): boolean {
  const first = parts.find((part) => 'functionCall' in part)
  return first !== undefined && first.thoughtSignature === undefined
}

function resultText(response: Readonly<Record<string, unknown>>): string {
  const value = response['output'] ?? response['error'] ?? response
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Returns the task; undefined when an image cannot be read. */
function taskOf(model: string, request: GeminiRequest, turns: readonly Turn[]): WritingTask | undefined {
  const { generationConfig: config = {}, toolConfig, tools = [] } = request
  const { mode, allowedFunctionNames: [only] = [] } = toolConfig?.functionCallingConfig ?? {}
  const system = request.systemInstruction?.parts.flatMap((part) => ('text' in part ? [part.text] : [])) ?? []
  const format =
    config.responseJsonSchema === undefined
      ? ({ type: config.responseMimeType === 'application/json' ? 'json_object' : 'text' } as const)
      : ({ type: 'json_schema', schema: config.responseJsonSchema } as const)
  const conversation = readConversation(system, turns)
  return (
    conversation && {
      ...conversation,
      tools: tools.flatMap(({ functionDeclarations }) =>
        functionDeclarations.map(({ name, description, parametersJsonSchema }) => ({
          name,
          description,
          parameters: parametersJsonSchema ?? {},
        })),
      ),
      toolChoice:
        mode === 'NONE' ? 'none' : mode === 'ANY' ? (only === undefined ? 'required' : { name: only }) : 'auto',
      responseFormat: format,
      maxOutputTokens: config.maxOutputTokens,
      stopSequences: config.stopSequences ?? [],
      thinking: thinkingOf(model, config.thinkingConfig ?? {}),
    }
  )
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
} as const satisfies Record<WrittenAnswer['finishReason'], string>

function write(task: WritingTask, cached: number): object {
  const answer = writeAnswer(task)
  const signature = createHash('sha256').update(task.texts.join('\n')).digest('base64')
  const parts = [
    ...(answer.text === null || answer.text === '' || answer.finishReason === 'refused' ? [] : [{ text: answer.text }]),
    ...answer.toolCalls.map(({ name, arguments: args }) => ({ functionCall: { name, args } })),
  ].map((part, index) => (index === 0 && task.thinking !== undefined ? { ...part, thoughtSignature: signature } : part))
  const withheld = answer.finishReason === 'refused'
  const isMalformed = answer.toolCalls.length > 0 && /\bgoes wrong\b/i.test(task.texts.at(-1) ?? '')
  const candidate = {
    // An answer without text has no parts, as when thinking used up the limit.
    ...(withheld || isMalformed ? {} : { content: { role: 'model', ...(parts.length === 0 ? {} : { parts }) } }),
    finishReason: isMalformed ? 'MALFORMED_FUNCTION_CALL' : FINISH_REASONS[answer.finishReason],
    index: 0,
  }
  const candidatesTokenCount = withheld ? 0 : answer.outputTokens - answer.thinkingTokens
  return {
    candidates: [candidate],
    usageMetadata: {
      promptTokenCount: answer.inputTokens,
      ...(cached === 0 ? {} : { cachedContentTokenCount: Math.min(cached, answer.inputTokens) }),
      ...(candidatesTokenCount === 0 ? {} : { candidatesTokenCount }),
      ...(answer.thinkingTokens === 0 ? {} : { thoughtsTokenCount: answer.thinkingTokens }),
      totalTokenCount: answer.inputTokens + candidatesTokenCount + answer.thinkingTokens,
    },
  }
}

function draw({ texts }: WritingTask): object {
  const prompt = texts.at(-1) ?? ''
  const promptTokenCount = countTokens(prompt)
  if (/\bplease refuse\b/i.test(prompt)) {
    return {
      candidates: [{ finishReason: 'IMAGE_SAFETY', index: 0 }],
      usageMetadata: { promptTokenCount, totalTokenCount: promptTokenCount },
    }
  }
  const inlineData = { mimeType: 'image/png', data: drawPng(prompt).toString('base64') }
  return {
    candidates: [{ content: { role: 'model', parts: [{ inlineData }] }, finishReason: 'STOP', index: 0 }],
    usageMetadata: {
      promptTokenCount,
      candidatesTokenCount: TOKENS_PER_GENERATED_IMAGE,
      totalTokenCount: promptTokenCount + TOKENS_PER_GENERATED_IMAGE,
    },
  }
}
