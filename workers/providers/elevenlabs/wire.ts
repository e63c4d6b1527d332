import { z } from 'zod'
import { list, optional, optionalSeconds, optionalText, optionalWord } from '../lenient.ts'
import { errorToken, storableText } from '../wire-fields.ts'

/** The types of items; another one is mapped to the nearest. */
const WORD_TYPES: ReadonlySet<string> = new Set(['word', 'spacing', 'audio_event'])

/** The id of a request or transcript; anything else counts as absent, so that free text never reaches a log. */
const requestId = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,64}$/)
  .optional()
  .catch(undefined)

/** An item of `words`. Times, speaker and characters are nullable in the vendor's description. */
const wordWire = z.object({
  text: storableText,
  type: optionalWord('words.type', WORD_TYPES),
  start: optionalSeconds('words.start'),
  end: optionalSeconds('words.end'),
  speaker_id: optional('words.speaker_id', storableText.pipe(z.string().max(100))),
  characters: list(
    'words.characters',
    z.object({
      text: storableText,
      start: optionalSeconds('characters.start'),
      end: optionalSeconds('characters.end'),
    }),
  ),
})

export type WordWire = z.infer<typeof wordWire>

/**
 * The 200 answer of `POST /v1/speech-to-text` for one channel, without unused fields (`logprob`, `additional_formats`,
 * `entities`, …).
 *
 * Source: elevenlabs.io/docs/api-reference/speech-to-text/convert (SpeechToTextChunkResponseModel) and the vendor's
 * Python SDK, src/elevenlabs/types/speech_to_text_*_response_model.py.
 */
export const transcriptWire = z.object({
  text: optionalText('text'),
  language_code: optionalText('language_code'),
  language_probability: optional('language_probability', z.number()),
  transcription_id: requestId,
  words: list('words', wordWire),
})

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
