import { z } from 'zod'
import type { Adapter } from '../adapter.ts'
import { createOpenAiCompatibleImage } from './image.ts'
import { createOpenAiCompatibleSpeech } from './speech.ts'
import { createOpenAiCompatibleText } from './text.ts'
import { createOpenAiCompatibleTranscription } from './transcription.ts'

const optionsSchema = z.strictObject({
  output_limit: z.enum(['max_completion_tokens', 'max_tokens', 'both']).default('max_completion_tokens'),
  system_role: z.enum(['system', 'developer']).default('system'),
  send_top_k: z.boolean().default(false),
  send_image_response_format: z.boolean().default(true),
})

export const openAiCompatible: Adapter = {
  needsKey: false,
  ports: (connection, options) => {
    const { output_limit, system_role, send_top_k, send_image_response_format } = optionsSchema.parse(options)
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
}
