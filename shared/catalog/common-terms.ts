import { type Category, categories } from './categories.ts'

/** The published properties of generated images, the same for every model of the category. */
const generatedImages = {
  sizes: ['1K'],
  aspectRatios: ['1:1'],
  responseFormats: ['url', 'b64_json'],
  defaultResponseFormat: 'url',
  urlRetentionHours: 168,
} as const

/** The published properties of generated speech, the same for every model of the category. */
const generatedSpeech = {
  responseFormats: ['mp3'],
  defaultResponseFormat: 'mp3',
  urlRetentionHours: 24,
} as const

/**
 * The terms that the lists of models, prices and voices publish for all models. Part of the catalog and its version.
 */
export interface CommonTerms {
  readonly serviceFeeBasisPoints: number
  /** `null` without a promotion. */
  readonly promotion: string | null
  /** `owned_by` of every model. */
  readonly owner: string
  /** The public provider name of voices; the upstream deployment behind it stays private. */
  readonly voiceProvider: string
  /** In the order they are listed. */
  readonly categories: readonly Category[]
  readonly images: typeof generatedImages
  readonly speech: typeof generatedSpeech
}

export const commonTerms: CommonTerms = {
  // The launch promotion: callers pay the published prices without a service fee (test/contract/specification.ts, S7).
  serviceFeeBasisPoints: 0,
  promotion: 'Launch promotion: no service fee.',
  owner: 'farebox',
  voiceProvider: 'speechvendor',
  categories,
  images: generatedImages,
  speech: generatedSpeech,
}
