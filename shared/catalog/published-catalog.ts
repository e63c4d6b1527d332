import { type Catalog, createCatalog, type Model, type SpeechModel, type TranscriptionChoices } from './catalog.ts'
import type { ServedModels } from './deployments-file.ts'
import { publishedModels } from './published-models.ts'
import { publishedVoices } from './voices.ts'

/** Everything that the interface publishes, before an operator's overrides and regardless of deployments. */
export const publishedCatalog: Catalog = createCatalog({ models: publishedModels, voices: publishedVoices })

export interface AvailabilityOptions {
  /** Output limits of models of which no deployment can write more. */
  readonly outputTokens?: ReadonlyMap<string, number>
  /** What the deployments of a model take of the options of recordings. */
  readonly transcriptionChoices?: ReadonlyMap<string, TranscriptionChoices>
  /**
   * A speech model whose default voice no deployment has: refused with an `Error` that says what to do, or not offered,
   * as while the deployment with that voice is drained.
   */
  readonly withoutDefaultVoice?: 'refuse' | 'withhold'
}

/**
 * Returns the usable part of a catalog: models, voices and limits that some deployment serves. All others are neither
 * listed nor quoted. The version follows the content, so it changes with availability.
 */
export function availableCatalog(
  catalog: Catalog,
  served: ServedModels,
  { outputTokens, transcriptionChoices, withoutDefaultVoice = 'refuse' }: AvailabilityOptions = {},
): Catalog {
  const models = catalog.models
    .filter(({ id }) => served.has(id))
    .filter((model) => withoutDefaultVoice === 'refuse' || hasDefaultVoice(model, served))
    .map((model) => withinOutput(model, outputTokens?.get(model.id)))
    .map((model) => withOptions(model, transcriptionChoices?.get(model.id)))
  const speechModels = models.filter((model): model is SpeechModel => model.category === 'text_to_speech')
  const voices = catalog.voices.filter(({ id: alias }) => speechModels.some(({ id }) => speaks(served, id, alias)))
  for (const { id, defaultVoice } of speechModels)
    if (!speaks(served, id, defaultVoice))
      throw new Error(
        `no deployment of "${id}" has its default voice "${defaultVoice}": add the voice to "voices" of a deployment, or set default_voice of the model in CATALOG_FILE to ${voices.map((voice) => voice.id).join(', ') || 'a voice that a deployment has'}`,
      )
  return createCatalog({ models, voices, common: catalog.common })
}

function hasDefaultVoice(model: Model, served: ServedModels): boolean {
  return model.category !== 'text_to_speech' || speaks(served, model.id, model.defaultVoice)
}

function withinOutput(model: Model, limit: number | undefined): Model {
  return model.category !== 'text_generation' || limit === undefined
    ? model
    : { ...model, maximumOutputTokens: Math.min(model.maximumOutputTokens, limit) }
}

function withOptions(model: Model, supportedOptions: TranscriptionChoices | undefined): Model {
  return model.category !== 'speech_to_text' || supportedOptions === undefined ? model : { ...model, supportedOptions }
}

function speaks(served: ServedModels, modelId: string, alias: string): boolean {
  const voices = served.get(modelId)
  return voices === 'all' || (voices?.has(alias) ?? false)
}
