import {
  type EffectiveTranscription,
  type TranscriptionResult,
  transcriptions,
} from '#shared/operations/transcriptions.ts'
import type { TranscribedWord, Transcript, TranscriptionInput } from '../providers/provider.ts'
import { type Execution, type ExecutionInput, unsupportedBy, withUsage } from './execution.ts'
import { transcriptionBytes } from './held-bytes.ts'

/** Speech to text. The usage is the duration measured before the quote, never a value from the provider. */
export const transcription: Execution = {
  heldBytes: ({ effectiveRequest }) => {
    const { audio, ...options } = transcriptions.effectiveRequestSchema.parse(effectiveRequest)
    return transcriptionBytes(audio, options)
  },
  screenedTexts: () => [],
  prepare: async ({ job, audio }) => {
    if (!audio) throw new Error('a transcription job needs its audio')
    const effective = transcriptions.effectiveRequestSchema.parse(job.effectiveRequest)
    return {
      call: async (deployment, options) => {
        if (!deployment.transcription) return unsupportedBy(deployment)
        const outcome = await deployment.transcription.transcribe(inputOf(effective, audio), options)
        const usage = { input_audio_ms: effective.audio.duration_ms }
        if (outcome.outcome === 'failed') return withUsage(outcome, usage)
        const product = {
          usage,
          mended: outcome.mended,
          media: null,
          result: (_: null, createdAt: Date) => resultOf({ job, audio }, effective, outcome.transcript, createdAt),
        }
        return { outcome: 'produced', product }
      },
    }
  },
}

function inputOf(effective: EffectiveTranscription, audio: Uint8Array): TranscriptionInput {
  return {
    audio,
    diarize: effective.diarize,
    timestamps: effective.timestamps,
    tagAudioEvents: effective.tag_audio_events,
    needsWords: effective.tag_audio_events || effective.response_format === 'verbose_json',
    ...(effective.language === undefined ? {} : { language: effective.language }),
    ...(effective.num_speakers === undefined ? {} : { numSpeakers: effective.num_speakers }),
  }
}

function resultOf(
  { job }: ExecutionInput,
  effective: EffectiveTranscription,
  { text, language, languageProbabilityMillionths, words }: Transcript,
  createdAt: Date,
): TranscriptionResult {
  return {
    id: `transcription-${job.id}`,
    created: Math.floor(createdAt.getTime() / 1000),
    model: job.publicModel,
    ...(effective.response_format === 'verbose_json'
      ? { task: 'transcribe' as const, duration: effective.audio.duration_ms / 1000 }
      : {}),
    text,
    ...(language === undefined ? {} : { language }),
    ...(languageProbabilityMillionths === undefined
      ? {}
      : { language_probability_millionths: languageProbabilityMillionths }),
    usage: { input_audio_ms: effective.audio.duration_ms },
    ...(words === undefined ? {} : { words: words.map(publicWord) }),
  }
}

/** Maps one item to its public form: seconds as numbers, speaker and characters only when requested. */
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
