import type { TranscriptionModel } from './catalog.ts'

/** The speech-to-text models of the specification with their published prices and limits. */
export const transcriptionModels = [
  {
    id: 'speechvendor/scribe-v2',
    category: 'speech_to_text',
    pricePerAudioHourUsd: '0.122',
    minimumChargeUsd: '0.005034',
    maximumChargeUsd: '0.122',
    maximumAudioDurationMs: 3_600_000,
    // What 34,952,536 Base64 characters hold, the longest audio_base64 the specification allows.
    maximumAudioBytes: 26_214_400,
    acceptedFormats: ['mp3'],
  },
] as const satisfies readonly TranscriptionModel[]
