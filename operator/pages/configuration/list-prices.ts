import type { Catalog, Model } from '#shared/catalog/catalog.ts'

/** A model as the overview lists it. */
export interface ListedModel {
  readonly id: string
  /** Such as `0.50 in, 3.00 out for 1M tokens`. */
  readonly price: string
  readonly bounds: string
  readonly limits: string
}

/** Returns what callers are offered while no deployment is drained. */
export function listPrices({ models }: Catalog): readonly ListedModel[] {
  return models.map((model) => ({
    id: model.id,
    price: priceOf(model),
    bounds: `${model.minimumChargeUsd} to ${model.maximumChargeUsd}`,
    limits: limitsOf(model),
  }))
}

function priceOf(model: Model): string {
  switch (model.category) {
    case 'text_generation':
      return `${model.inputPerMillionTokensUsd} in, ${model.outputPerMillionTokensUsd} out for 1M tokens`
    case 'image_generation':
      return `${model.pricePerImageUsd} for an image`
    case 'text_to_speech':
      return `${model.pricePerThousandCharactersUsd} for 1,000 characters`
    case 'speech_to_text':
      return `${model.pricePerAudioHourUsd} for an hour`
  }
}

function limitsOf(model: Model): string {
  switch (model.category) {
    case 'text_generation':
      return `${model.maximumOutputTokens} output tokens, ${model.contextWindow} in all`
    case 'image_generation':
      return 'one image'
    case 'text_to_speech':
      return `${model.maximumCharacters} characters, default voice ${model.defaultVoice}`
    case 'speech_to_text':
      return `${model.maximumAudioDurationMs / 1000} s, ${model.maximumAudioBytes} bytes`
  }
}
