import { z } from 'zod'
import type { TextRequest } from '../text/text-request.ts'
import {
  type NameRule,
  nameObstacle,
  stopsObstacle,
  type TextObstacle,
  toolsObstacle,
  verbosityObstacle,
} from './text-obstacle.ts'
import type { TranscriptionObstacle, TranscriptionOptions } from './transcription-obstacle.ts'

/** The options of a deployment that decide what its server takes. */
export const openAiCarriedOptions = {
  /** Requests with more stop sequences go to another deployment. OpenAI accepts 4, and its reasoning models none. */
  maximum_stop_sequences: z.int().min(0).default(4),
  /**
   * Requests with more tools, or with a message in their history that calls more, go to another deployment. OpenAI: 400
   * `array_above_max_length` "Expected an array with maximum length 128", of `tools` and of `messages[].tool_calls`
   * (not documented, as reported: github.com/zed-industries/zed/issues/32946, openai/openai-dotnet/issues/317, read on
   * 29 November 2026).
   */
  maximum_tools: z.int().min(1).default(128),
  /** Whether the model has a `verbosity`, as OpenAI's from GPT-5 on; other servers refuse or ignore the field. */
  send_verbosity: z.boolean().default(false),
  /**
   * What the server's transcripts have besides the text: the times of `words`, those of `segments` only, or neither (`text`).
   * OpenAI's whisper-1, whisper.cpp, Speaches and faster-whisper servers list words; vLLM lists segments; llama.cpp and
   * Ollama know no more than text, and the first of them refuses to be asked.
   */
  transcript_detail: z.enum(['words', 'segments', 'text']).default('words'),
} as const

const optionsSchema = z.object(openAiCarriedOptions)

export type OpenAiCarriedOptions = z.infer<typeof optionsSchema>

/** Reads the options of a deployments file; those of a deployment that no worker would start with count as absent. */
export function readOpenAiOptions(options: unknown): OpenAiCarriedOptions {
  return optionsSchema.safeParse(options).data ?? optionsSchema.parse({})
}

/** Source: npm package `openai` 7.57, resources/shared.d.ts, FunctionDefinition.name, read on 28 November 2026. */
const NAMES: NameRule = {
  pattern: /^[a-zA-Z0-9_-]{1,64}$/,
  rule: 'with other characters than letters, digits, _ and -, or of more than 64 characters',
  isUnique: false,
}

/** Returns what a server with OpenAI's API, or this deployment's model, does not take. */
export function openAiTextObstacle(request: TextRequest, options: OpenAiCarriedOptions): TextObstacle | undefined {
  return (
    stopsObstacle(request, options.maximum_stop_sequences) ??
    (options.send_verbosity ? undefined : verbosityObstacle(request)) ??
    toolsObstacle(request, options.maximum_tools) ??
    callsObstacle(request, options.maximum_tools) ??
    nameObstacle(request, NAMES) ??
    assistantImage(request)
  )
}

function callsObstacle({ messages }: TextRequest, maximum: number): TextObstacle | undefined {
  const has = messages.some(({ parts }) => parts.filter(({ type }) => type === 'tool_call').length > maximum)
  return has ? { field: 'messages', what: `more than ${maximum} calls of tools in one message` } : undefined
}

function assistantImage({ messages }: TextRequest): TextObstacle | undefined {
  const has = messages.some(({ role, parts }) => role === 'assistant' && parts.some(({ type }) => type === 'image'))
  return has ? { field: 'messages', what: 'an image in an assistant message' } : undefined
}

/** Returns what a recording is asked for beyond text, language and, where the server lists them, the times of words. */
export function openAiTranscriptionObstacle(
  { diarize, tag_audio_events, timestamps, response_format }: TranscriptionOptions,
  { transcript_detail }: Pick<OpenAiCarriedOptions, 'transcript_detail'>,
): TranscriptionObstacle | undefined {
  if (diarize) return { field: 'diarize', what: 'speakers' }
  if (tag_audio_events) return { field: 'tag_audio_events', what: 'audio events' }
  if (timestamps === 'character') return { field: 'timestamps', what: 'character times' }
  if (transcript_detail === 'words') return undefined
  if (timestamps === 'word') return { field: 'timestamps', what: 'times of words' }
  return response_format === 'verbose_json' ? { field: 'response_format', what: 'times of words' } : undefined
}
