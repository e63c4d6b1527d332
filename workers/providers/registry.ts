import { z } from 'zod'
import type { AdapterName } from '#shared/catalog/deployments-file.ts'
import { createAnthropicText } from './anthropic/text.ts'
import { createElevenLabsSpeech } from './elevenlabs/speech.ts'
import { createElevenLabsTranscription } from './elevenlabs/transcription.ts'
import { createGeminiImage } from './gemini/image.ts'
import { createGeminiText } from './gemini/text.ts'
import type { GeminiThinking } from './gemini/text-body.ts'
import type { SendHttp } from './http.ts'
import { createOpenAiCompatibleImage } from './openai-compatible/image.ts'
import { createOpenAiCompatibleSpeech } from './openai-compatible/speech.ts'
import { createOpenAiCompatibleText } from './openai-compatible/text.ts'
import { createOpenAiCompatibleTranscription } from './openai-compatible/transcription.ts'
import type { ImageProvider, SpeechProvider, TextProvider, TranscriptionProvider } from './provider.ts'

/** The ports of one upstream; an adapter has those that its wire has. */
export interface ProviderPorts {
  readonly text?: TextProvider
  readonly image?: ImageProvider
  readonly speech?: SpeechProvider
  readonly transcription?: TranscriptionProvider
}

/** A private upstream, ready to be called. Its name is for logs and the attempts' rows, never for callers. */
export interface Deployment extends ProviderPorts {
  readonly name: string
  /** Public model ids. */
  readonly serves: readonly string[]
  /** The lowest is tried first. */
  readonly priority: number
  readonly weight: number
  readonly maximumConcurrency?: number
  readonly requestsPerMinute?: number
  readonly timeoutMs?: number
  /** Public alias → the upstream's voice id; absent: the upstream knows the aliases themselves. */
  readonly voices?: Readonly<Record<string, string>>
}

/** The upstream's id of a public voice, or `undefined` when the deployment does not have it. */
export function upstreamVoice({ voices }: Pick<Deployment, 'voices'>, alias: string): string | undefined {
  if (voices === undefined) return alias
  return Object.hasOwn(voices, alias) ? voices[alias] : undefined
}

interface Connection {
  readonly baseUrl: string
  readonly upstreamModel: string
  readonly http: SendHttp
}

type KeyedConnection = Connection & { readonly apiKey: string }
type OpenConnection = Connection & { readonly apiKey?: string }

/** An adapter: what its options are called in the deployments file, and which ports it makes. */
export type Adapter =
  | { readonly needsKey: true; ports(connection: KeyedConnection, options: unknown): ProviderPorts }
  | { readonly needsKey: false; ports(connection: OpenConnection, options: unknown): ProviderPorts }

const noOptions = z.strictObject({})

const geminiOptions = z
  .strictObject({
    /** For models of generation 2.5. */
    thinking_budget_tokens: z.int().min(0).optional(),
    /** For later ones. */
    thinking_level: z.enum(['minimal', 'low', 'medium', 'high']).optional(),
  })
  .refine(
    (options) => options.thinking_budget_tokens === undefined || options.thinking_level === undefined,
    'thinking_budget_tokens and thinking_level exclude each other',
  )
  .transform(({ thinking_budget_tokens: budgetTokens, thinking_level: level }): { thinking?: GeminiThinking } => {
    if (budgetTokens !== undefined) return { thinking: { budgetTokens } }
    return level === undefined ? {} : { thinking: { level } }
  })

const openAiCompatibleOptions = z.strictObject({
  output_limit: z.enum(['max_completion_tokens', 'max_tokens', 'both']).default('max_completion_tokens'),
  system_role: z.enum(['system', 'developer']).default('system'),
  send_top_k: z.boolean().default(false),
  send_image_response_format: z.boolean().default(true),
})

/** Adding a provider is a folder and a line here. `ports` throws a ZodError for options that the adapter does not know. */
export const adapters: Readonly<Record<AdapterName, Adapter>> = {
  gemini: {
    needsKey: true,
    ports: (connection, options) => {
      const { thinking } = geminiOptions.parse(options)
      const text = createGeminiText({ ...connection, ...(thinking === undefined ? {} : { thinking }) })
      return { text, image: createGeminiImage(connection) }
    },
  },
  anthropic: {
    needsKey: true,
    ports: (connection, options) => {
      noOptions.parse(options)
      return { text: createAnthropicText(connection) }
    },
  },
  elevenlabs: {
    needsKey: true,
    ports: (connection, options) => {
      noOptions.parse(options)
      return { speech: createElevenLabsSpeech(connection), transcription: createElevenLabsTranscription(connection) }
    },
  },
  'openai-compatible': {
    needsKey: false,
    ports: (connection, options) => {
      const { output_limit, system_role, send_top_k, send_image_response_format } =
        openAiCompatibleOptions.parse(options)
      return {
        text: createOpenAiCompatibleText({
          ...connection,
          outputLimit: output_limit,
          systemRole: system_role,
          sendTopK: send_top_k,
        }),
        image: createOpenAiCompatibleImage({ ...connection, sendResponseFormat: send_image_response_format }),
        speech: createOpenAiCompatibleSpeech(connection),
        transcription: createOpenAiCompatibleTranscription(connection),
      }
    },
  },
}
