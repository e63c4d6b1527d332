import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { ClaimedJob, SealedResult } from '#shared/jobs/job.ts'
import {
  type EffectiveTranscription,
  type TranscriptionResult,
  type TranscriptionUsage,
  transcriptions,
} from '#shared/operations/transcriptions.ts'
import type { TranscribedWord, Transcript } from '../providers/provider.ts'

/**
 * Turns a transcript into the exact answer text and the charge. The charge follows from the duration that was inspected
 * before the quote, never from anything the provider says.
 */
export function sealTranscription(
  job: ClaimedJob,
  effective: EffectiveTranscription,
  transcript: Transcript,
  now: Date,
): SealedResult {
  const usage: TranscriptionUsage = { input_audio_ms: effective.audio.duration_ms }
  const result = transcriptions.resultSchema.parse(transcriptionResult(job, effective, transcript, usage, now))
  const resultBody = JSON.stringify(result)
  return {
    usage,
    chargeAmount: transcriptions.charge(usage, transcriptions.termsSchema.parse(job.terms)),
    resultBody,
    resultDigest: sha256Hex(resultBody),
  }
}

function transcriptionResult(
  job: ClaimedJob,
  effective: EffectiveTranscription,
  { text, language, languageProbabilityMillionths, words }: Transcript,
  usage: TranscriptionUsage,
  now: Date,
): TranscriptionResult {
  return {
    id: `transcription-${job.id}`,
    created: Math.floor(now.getTime() / 1000),
    model: job.publicModel,
    ...(effective.response_format === 'verbose_json'
      ? { task: 'transcribe' as const, duration: effective.audio.duration_ms / 1000 }
      : {}),
    text,
    ...(language === undefined ? {} : { language }),
    ...(languageProbabilityMillionths === undefined
      ? {}
      : { language_probability_millionths: languageProbabilityMillionths }),
    usage,
    ...(words === undefined ? {} : { words: words.map(publicWord) }),
  }
}

/** One item as the decisions page fixes it: seconds as numbers, speaker and characters only where they were asked for. */
function publicWord({ text, startSeconds, endSeconds, type, speaker, characters }: TranscribedWord) {
  return {
    word: text,
    start: startSeconds,
    end: endSeconds,
    type,
    ...(speaker === undefined ? {} : { speaker }),
    ...(characters === undefined
      ? {}
      : { characters: characters.map((one) => ({ text: one.text, start: one.startSeconds, end: one.endSeconds })) }),
  }
}
