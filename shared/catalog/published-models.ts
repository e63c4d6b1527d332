import type { ImageModel, Model, SpeechModel, TextModel, TranscriptionModel } from './catalog.ts'

/** Published bounds of one text call, on either endpoint. */
const TEXT_BOUNDS = { minimumChargeUsd: '0.002', maximumChargeUsd: '0.766952' } as const

/** The same for every text model; requests reach the price bound or their own output limit earlier. */
const CONTEXT_WINDOW = 1_048_576

/**
 * The text models. Prices follow retail prices of models of these sizes. A short request with the default 512 output
 * tokens stays at the minimum charge on every model up to 3.8 USD per million output tokens. The largest request,
 * 65,536 output tokens of the most expensive model and the input that the bound leaves room for, reaches the maximum
 * exactly.
 *
 * Input that the vendor reads from its cache costs the larger of the vendor's own ratio of the input's price and what
 * that vendor bills for it, by the example deployments, which name their sources. `pricing.test.ts` computes it from them.
 */
export const textModels: readonly TextModel[] = [
  textModel('textmodel-3.6-flash', '2026-07-21', {
    input: '0.50',
    cached: '0.15',
    output: '3.00',
    maximumOutputTokens: 65_536,
  }),
  textModel('textmodel-3.5-flash-lite', '2026-07-21', {
    input: '0.15',
    cached: '0.03',
    output: '0.90',
    maximumOutputTokens: 65_536,
  }),
  textModel('textmodel-3.5-flash', '2026-05-19', {
    input: '0.40',
    cached: '0.15',
    output: '2.80',
    maximumOutputTokens: 65_536,
  }),
  textModel('textmodel-3.1-flash-lite', '2026-03-03', {
    input: '0.25',
    cached: '0.025',
    output: '1.50',
    maximumOutputTokens: 32_768,
  }),
  textModel('textmodel-2.5-flash', '2025-06-17', {
    input: '0.30',
    cached: '0.03',
    output: '2.50',
    maximumOutputTokens: 65_536,
  }),
  textModel('textmodel-2.5-pro', '2025-06-17', {
    input: '1.25',
    cached: '0.125',
    output: '10.00',
    maximumOutputTokens: 65_536,
  }),
  textModel('textmodel-2.5-flash-lite', '2025-07-22', {
    input: '0.10',
    cached: '0.01',
    output: '0.40',
    maximumOutputTokens: 32_768,
  }),
]

export const imageModel: ImageModel = {
  id: 'textmodel-3.1-flash-lite-image',
  category: 'image_generation',
  created: unixSeconds('2026-06-09'),
  pricePerImageUsd: '0.035',
  minimumChargeUsd: '0.035',
  maximumChargeUsd: '0.035',
}

export const speechModel: SpeechModel = {
  id: 'speechvendor/flash-v2.5',
  category: 'text_to_speech',
  created: unixSeconds('2024-12-18'),
  pricePerThousandCharactersUsd: '0.2205',
  minimumChargeUsd: '0.002',
  maximumChargeUsd: '0.441',
  maximumCharacters: 2000,
  defaultVoice: 'darian',
}

/**
 * The least length of a recording that the vendors take. ElevenLabs: "The file to transcribe (100ms minimum audio length)"
 * (npm package `@elevenlabs/elevenlabs-js` 2.73, BodySpeechToTextV1SpeechToTextPost.d.ts). OpenAI: 400 `audio_too_short`,
 * "Audio file is too short. Minimum audio length is 0.1 seconds." (as UpstreetAI/usdk#637 quotes it). Other servers with
 * OpenAI's API take less (Groq: 0.01 s) or document none. Read on 28 November 2026.
 */
const MINIMUM_AUDIO_DURATION_MS = 100

export const transcriptionModel = {
  id: 'speechvendor/scribe-v2',
  category: 'speech_to_text',
  created: unixSeconds('2026-01-01'),
  pricePerAudioHourUsd: '0.122',
  minimumChargeUsd: '0.005034',
  maximumChargeUsd: '0.122',
  minimumAudioDurationMs: MINIMUM_AUDIO_DURATION_MS,
  maximumAudioDurationMs: 3_600_000,
  // The size of 34,952,536 Base64 characters, the maximum length of audio_base64.
  maximumAudioBytes: 26_214_400,
  acceptedFormats: ['mp3'],
} as const satisfies TranscriptionModel

/** Every model with its published prices and limits, in the order they are listed. */
export const publishedModels: readonly Model[] = [...textModels, imageModel, speechModel, transcriptionModel]

function textModel(
  id: string,
  createdOn: string,
  prices: { input: string; cached: string; output: string; maximumOutputTokens: number },
): TextModel {
  return {
    id,
    category: 'text_generation',
    created: unixSeconds(createdOn),
    inputPerMillionTokensUsd: prices.input,
    cachedInputPerMillionTokensUsd: prices.cached,
    outputPerMillionTokensUsd: prices.output,
    ...TEXT_BOUNDS,
    contextWindow: CONTEXT_WINDOW,
    maximumOutputTokens: prices.maximumOutputTokens,
  }
}

function unixSeconds(isoDate: string): number {
  return Date.parse(isoDate) / 1000
}
