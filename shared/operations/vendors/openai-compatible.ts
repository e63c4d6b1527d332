import { z } from 'zod'
import type { TextRequest } from '../text/text-request.ts'
import { type NameRule, nameObstacle, stopsObstacle, type TextObstacle, verbosityObstacle } from './text-obstacle.ts'
import type { TranscriptionObstacle, TranscriptionOptions } from './transcription-obstacle.ts'

/** The options of a deployment that decide what its server takes. */
export const openAiCarriedOptions = {
  /** Requests with more stop sequences go to another deployment. OpenAI accepts 4, and its reasoning models none. */
  maximum_stop_sequences: z.int().min(0).default(4),
  /** Whether the model has a `verbosity`, as OpenAI's from GPT-5 on; other servers refuse or ignore the field. */
  send_verbosity: z.boolean().default(false),
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
    nameObstacle(request, NAMES) ??
    assistantImage(request)
  )
}

function assistantImage({ messages }: TextRequest): TextObstacle | undefined {
  const has = messages.some(({ role, parts }) => role === 'assistant' && parts.some(({ type }) => type === 'image'))
  return has ? { field: 'messages', what: 'an image in an assistant message' } : undefined
}

/** Returns what a recording is asked for beyond text, words and language. */
export function openAiTranscriptionObstacle(options: TranscriptionOptions): TranscriptionObstacle | undefined {
  if (options.diarize) return { field: 'diarize', what: 'speakers' }
  if (options.tag_audio_events) return { field: 'tag_audio_events', what: 'audio events' }
  return options.timestamps === 'character' ? { field: 'timestamps', what: 'character times' } : undefined
}
