import type { TextRequest } from '../text/text-request.ts'
import {
  emptinessObstacle,
  type NameRule,
  nameObstacle,
  ownTurnObstacle,
  stopsObstacle,
  type TextObstacle,
  toolsObstacle,
  verbosityObstacle,
} from './text-obstacle.ts'

export interface GeminiFamily {
  readonly generation: number
  readonly isLite: boolean
  /** Whether the model samples by fixed parameters, and answers no conversation that ends with its own turn. */
  readonly isFixed: boolean
}

/**
 * Reads the name of a model. One of the vendor's family without a version (`gemini-flash-latest`) counts as the newest,
 * any other name (an open model that the same API serves) as generation 0.
 *
 * Source: ai.google.dev/gemini-api/docs/latest-model; 400 "Requests ending with a model turn are not supported" of
 * gemini-3.6-flash and gemini-3.5-flash-lite, which gemini-3.5-flash accepts.
 */
export function geminiFamily(upstreamModel: string): GeminiFamily {
  const generation = generationOf(upstreamModel)
  const isLite = upstreamModel.includes('flash-lite')
  return { generation, isLite, isFixed: generation >= 3.6 || (isLite && generation >= 3.5) }
}

function generationOf(upstreamModel: string): number {
  if (!upstreamModel.startsWith('gemini-')) return 0
  const version = /^gemini-(\d+(?:\.\d+)?)(?:-|$)/.exec(upstreamModel)?.[1]
  return version === undefined ? Number.POSITIVE_INFINITY : Number(version)
}

/** The vendor's limit (ai.google.dev/api/generate-content, GenerationConfig.stopSequences). */
const MAXIMUM_STOP_SEQUENCES = 5

/**
 * 400 "At most 512 function declarations can be specified" (not documented, as reported:
 * github.com/google-gemini/gemini-cli/issues/19083, read on 29 November 2026).
 */
const MAXIMUM_TOOLS = 512

/**
 * Source: npm package `@google/genai` 3.1, FunctionDeclaration.name, read on 28 November 2026; two declarations of one
 * name are 400 "Duplicate function declaration found" (not documented, as reported).
 */
const NAMES: NameRule = {
  pattern: /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/,
  rule: 'that does not begin with a letter or _, has other characters than letters, digits, _, ., : and -, or more than 128',
  isUnique: true,
}

/**
 * The first generation that combines function calling with a JSON answer: 400 "Function calling with a response mime type:
 * 'application/json' is unsupported" of 2.5 (ai.google.dev/gemini-api/docs/gemini-3).
 */
const COMBINES_TOOLS_WITH_JSON = 3

/** Returns what the vendor, or this model, does not take. Contents without a text or another part are a 400. */
export function geminiTextObstacle(request: TextRequest, upstreamModel: string): TextObstacle | undefined {
  const { tools = [], response_format: format } = request
  const { generation, isFixed } = geminiFamily(upstreamModel)
  const wantsJson = format !== undefined && format.type !== 'text'
  const combined = tools.length > 0 && wantsJson && generation < COMBINES_TOOLS_WITH_JSON
  return (
    stopsObstacle(request, MAXIMUM_STOP_SEQUENCES) ??
    (combined ? { field: 'response_format', what: 'tools together with a JSON answer' } : undefined) ??
    (isFixed ? ownTurnObstacle(request) : undefined) ??
    verbosityObstacle(request) ??
    toolsObstacle(request, MAXIMUM_TOOLS) ??
    nameObstacle(request, NAMES) ??
    emptinessObstacle(request, (text) => text === '', 'messages without any content beside a system text')
  )
}
