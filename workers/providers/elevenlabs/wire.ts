import { z } from 'zod'
import { errorToken, storableText } from '../wire-fields.ts'

const seconds = z.number().nonnegative().nullish()

/** An item of `words`. Times, speaker and characters are nullable in the vendor's description. */
const wordWire = z.object({
  text: storableText,
  type: z.enum(['word', 'spacing', 'audio_event']),
  start: seconds,
  end: seconds,
  speaker_id: z.string().max(100).nullish(),
  characters: z.array(z.object({ text: storableText, start: seconds, end: seconds })).nullish(),
})

export type WordWire = z.infer<typeof wordWire>

export const wordsWire = z.array(wordWire)

/**
 * The 200 answer of `POST /v1/speech-to-text` for one channel, without unused fields (`logprob`, `additional_formats`,
 * `entities`, …). `words` is validated separately and only when words were requested, so that a new type of item cannot
 * break a plain transcript.
 *
 * Source: elevenlabs.io/docs/api-reference/speech-to-text/convert (SpeechToTextChunkResponseModel) and the vendor's
 * Python SDK, src/elevenlabs/types/speech_to_text_*_response_model.py.
 */
export const transcriptWire = z.object({
  text: storableText.nullish(),
  language_code: storableText.nullish(),
  language_probability: z.number().nullish(),
  transcription_id: z.string().nullish(),
  words: z.unknown().optional(),
})

/** The id of a request. */
const requestId = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,64}$/)
  .optional()
  .catch(undefined)

/**
 * The error body in its two forms: the vendor's own object, and the list its framework sends for an invalid field.
 * Only short tokens are read. `message`, `msg` and `input` quote the caller's values and are ignored.
 *
 * Source: elevenlabs.io/docs/eleven-api/resources/errors: `code` is the current name, `status` the older one.
 */
export const errorWire = z.object({
  detail: z.union([
    z.object({ type: errorToken, code: errorToken, status: errorToken, request_id: requestId }),
    z.array(z.object({ type: errorToken, loc: z.array(z.union([z.string(), z.number()])).optional() })).max(100),
  ]),
})
