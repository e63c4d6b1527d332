import { z } from 'zod'
import type { LeasedJob } from '#shared/jobs/job.ts'
import { LONGEST_OUTPUT_TOKENS } from '#shared/operations/text/output-time.ts'
import type { EffectiveTranscription } from '#shared/operations/transcriptions.ts'

const KIBIBYTE = 1024
const MEBIBYTE = 1024 * KIBIBYTE

/** Row, payment, connections and buffers of one job. */
const JOB_BYTES = 128 * KIBIBYTE

/**
 * Copies of a text request that are alive at the same time: as it was read and parsed, and the body that is sent.
 * Strings with a character beyond Latin-1 take two bytes for each.
 */
const REQUEST_COPIES = 4
/** An answer as text, parsed and as the result; a token is about four bytes of text. */
const BYTES_PER_OUTPUT_TOKEN = 32
/** Copies of an image that was fetched from a caller's server: its bytes, then its Base64 in the body that is sent. */
const REMOTE_IMAGE_COPIES = 5
/** No vendor accepts a larger request. */
export const MAXIMUM_REMOTE_IMAGE_BYTES = 20 * MEBIBYTE

/** Base64 of a PNG of 1024 × 1024 pixels that does not compress, or the image itself. */
const IMAGE_BYTES = 8 * MEBIBYTE
/** The same with the Base64 that the result contains. */
const INLINE_IMAGE_BYTES = 20 * MEBIBYTE

/**
 * Slow speech of 128 kbit/s has 1.5 KiB for each character; it arrives in pieces that are joined. A WAV of 24 kHz, which is
 * converted, has 4.5 KiB.
 */
const SPEECH_BYTES_PER_CHARACTER = 8 * KIBIBYTE

/** Memory of a transcript for each second of audio: text alone, with words, and with the times of characters. */
const TRANSCRIPT_BYTES_PER_SECOND = { none: KIBIBYTE, word: 4 * KIBIBYTE, character: 16 * KIBIBYTE } as const

const textTermsSchema = z.object({ maximum_output_tokens: z.int().positive() })

/** What a text job with this request and answer holds. */
export function textBytes({ requestBytes, terms }: Pick<LeasedJob, 'requestBytes' | 'terms'>): number {
  const parsed = textTermsSchema.safeParse(terms)
  const outputTokens = parsed.success ? parsed.data.maximum_output_tokens : LONGEST_OUTPUT_TOKENS
  return JOB_BYTES + requestBytes * REQUEST_COPIES + outputTokens * BYTES_PER_OUTPUT_TOKEN
}

/** What images that callers reference add to their text job. */
export function remoteImageBytes(bytes: number): number {
  return bytes * REMOTE_IMAGE_COPIES
}

export function imageBytes(responseFormat: 'url' | 'b64_json'): number {
  return JOB_BYTES + (responseFormat === 'url' ? IMAGE_BYTES : INLINE_IMAGE_BYTES)
}

export function speechBytes(characters: number): number {
  return JOB_BYTES + characters * SPEECH_BYTES_PER_CHARACTER
}

/** What a transcription holds: the decrypted upload until the call ends, and the transcript. */
export function transcriptionBytes(
  audio: EffectiveTranscription['audio'],
  options: Pick<EffectiveTranscription, 'timestamps' | 'diarize' | 'tag_audio_events' | 'response_format'>,
): number {
  const { timestamps, diarize, tag_audio_events, response_format } = options
  const hasWords = diarize || tag_audio_events || response_format === 'verbose_json'
  const bytesPerSecond = TRANSCRIPT_BYTES_PER_SECOND[timestamps === 'none' && hasWords ? 'word' : timestamps]
  return JOB_BYTES + audio.bytes + Math.ceil(audio.duration_ms / 1000) * bytesPerSecond
}
