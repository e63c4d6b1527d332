import { z } from 'zod'
import { EFFORTS } from '#shared/operations/text/effort.ts'
import { openAiCarriedOptions } from '#shared/operations/vendors/openai-compatible.ts'
import { type Adapter, type OpenConnection, urlBelow } from '../adapter.ts'
import { announcedTime, getListing, type LookUpModel, listingJson, unknownStatus } from '../model-look-up.ts'
import { isEffortRange, maximumOutputTokensSchema, withinOutputLimit } from '../output-limit.ts'
import { createOpenAiCompatibleImage, IMAGE_QUALITIES } from './image.ts'
import { createOpenAiCompatibleSpeech, SPEECH_FORMATS } from './speech.ts'
import { createOpenAiCompatibleText } from './text.ts'
import { createOpenAiCompatibleTranscription } from './transcription.ts'

const effortSchema = z.enum(EFFORTS)

const textOptions = {
  /** A higher output limit of a request is reduced to this. */
  maximum_output_tokens: maximumOutputTokensSchema,
  /** The highest effort; requests with a low output limit get a lower one. Not sent unless set. */
  reasoning_effort: effortSchema.optional(),
  /** The lowest effort that the model supports; by default `low`. */
  lowest_reasoning_effort: effortSchema.optional(),
  /** `false` sends the effort `none` with tools, which GPT-5.4 and later require of this API. */
  reasoning_with_tools: z.boolean().default(true),
  /** When temperature, top_p, top_k and penalties are sent: `when_not_reasoning` as far as reasoning_effort shows. */
  sampling: z.enum(['full', 'when_not_reasoning', 'none']).default('when_not_reasoning'),
  ...openAiCarriedOptions,
  /** For chat templates of open models: `{ "enable_thinking": false }`. */
  chat_template_kwargs: z.record(z.string(), z.json()).optional(),
  /** `false` for a server that cannot stream completions, or not with `stream_options`; it then needs a whole answer. */
  streaming: z.boolean().default(true),
} as const

const optionsSchema = z
  .strictObject({
    ...textOptions,
    output_limit: z.enum(['max_completion_tokens', 'max_tokens', 'both']).default('max_completion_tokens'),
    system_role: z.enum(['system', 'developer']).default('system'),
    send_top_k: z.boolean().default(false),
    send_image_response_format: z.boolean().default(true),
    /** The quality of images, which OpenAI's GPT image models bill by. Not sent unless set. */
    image_quality: z.enum(IMAGE_QUALITIES).optional(),
    /** Where recordings are posted, below base_url; whisper.cpp's server has `/inference`. */
    transcription_path: z
      .string()
      .regex(/^(?:\/[\w.~-]+)+$/, 'must be a path such as /inference')
      .default('/audio/transcriptions'),
    /** The `language` that is sent for a request that names none: `auto` for whisper.cpp, which else hears English. */
    automatic_language: z
      .string()
      .regex(/^[a-z]{2,20}$/)
      .optional(),
    /** The `response_format` that speech is asked for; whatever arrives is converted to MP3. */
    speech_format: z.enum(SPEECH_FORMATS).default('mp3'),
  })
  .refine(
    ({ reasoning_effort: highest, lowest_reasoning_effort: lowest = 'none' }) => isEffortRange({ highest, lowest }),
    'lowest_reasoning_effort is above reasoning_effort',
  )

export const openAiCompatible: Adapter = {
  needsKey: false,
  ports: (connection, given) => {
    const options = optionsSchema.parse(given)
    const { output_limit, system_role, send_top_k, send_image_response_format } = options
    return {
      text: withinOutputLimit(
        createOpenAiCompatibleText({
          ...connection,
          outputLimit: output_limit,
          systemRole: system_role,
          sendTopK: send_top_k,
          reasoningEffort: options.reasoning_effort,
          lowestReasoningEffort: options.lowest_reasoning_effort,
          reasonsWithTools: options.reasoning_with_tools,
          sampling: options.sampling,
          carried: options,
          chatTemplateArguments: options.chat_template_kwargs,
          streams: options.streaming,
        }),
        options.maximum_output_tokens,
      ),
      image: createOpenAiCompatibleImage({
        ...connection,
        sendResponseFormat: send_image_response_format,
        quality: options.image_quality,
      }),
      speech: createOpenAiCompatibleSpeech(connection, { format: options.speech_format }),
      transcription: createOpenAiCompatibleTranscription(connection, {
        path: options.transcription_path,
        transcript_detail: options.transcript_detail,
        automaticLanguage: options.automatic_language,
      }),
      lookUpModel: createModelLookUp(connection),
    }
  },
}

/** Source: developers.openai.com/api/reference, List models; `shutdown_date` is OpenAI's. */
const modelsWire = z.object({
  data: z.array(z.object({ id: z.string(), shutdown_date: z.string().nullish().catch(null) })),
})

/** Creates the look-up of a server's list, `GET {baseUrl}/models`. Servers do not offer a look-up of one model. */
function createModelLookUp({ baseUrl, apiKey, upstreamModel, http }: OpenConnection): LookUpModel {
  const url = urlBelow(baseUrl, '/models')
  const headers: Record<string, string> = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
  return async (_voices, options) => {
    const exchange = await getListing({ url, headers, http }, options)
    const answer = modelsWire.safeParse(listingJson(exchange))
    if (!answer.success) return unknownStatus(exchange)
    const model = answer.data.data.find(({ id }) => id === upstreamModel)
    return model === undefined ? { outcome: 'missing' } : { outcome: 'listed', ...announcedTime(model.shutdown_date) }
  }
}
