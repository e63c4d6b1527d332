/** The published properties of generated images, the same for every model of the category. */
export const generatedImages = {
  sizes: ['1K'],
  aspectRatios: ['1:1'],
  responseFormats: ['url', 'b64_json'],
  defaultResponseFormat: 'url',
  urlRetentionHours: 168,
} as const

/** The published properties of generated speech, the same for every model of the category. */
export const generatedSpeech = {
  responseFormats: ['mp3'],
  defaultResponseFormat: 'mp3',
  urlRetentionHours: 24,
} as const
