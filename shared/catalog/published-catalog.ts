import { type Catalog, createCatalog, type SpeechModel } from './catalog.ts'
import type { ServedModels } from './deployments-file.ts'
import { publishedModels } from './published-models.ts'
import { publishedVoices } from './voices.ts'

/** Everything that the interface publishes, before an operator's overrides and regardless of deployments. */
export const publishedCatalog: Catalog = createCatalog({ models: publishedModels, voices: publishedVoices })

/**
 * Returns the usable part of a catalog: models and voices that some deployment serves. All others are neither listed
 * nor quoted. The version follows the content, so it changes with availability.
 *
 * Throws an `Error` that says what to do when no deployment serves the default voice of an available model.
 */
export function availableCatalog(catalog: Catalog, served: ServedModels): Catalog {
  const models = catalog.models.filter(({ id }) => served.has(id))
  const speechModels = models.filter((model): model is SpeechModel => model.category === 'text_to_speech')
  const voices = catalog.voices.filter(({ id: alias }) => speechModels.some(({ id }) => speaks(served, id, alias)))
  for (const { id, defaultVoice } of speechModels)
    if (!speaks(served, id, defaultVoice))
      throw new Error(
        `no deployment of "${id}" has its default voice "${defaultVoice}": add the voice to "voices" of a deployment, or set default_voice of the model in CATALOG_FILE to ${voices.map((voice) => voice.id).join(', ') || 'a voice that a deployment has'}`,
      )
  return createCatalog({ models, voices, common: catalog.common })
}

function speaks(served: ServedModels, modelId: string, alias: string): boolean {
  const voices = served.get(modelId)
  return voices === 'all' || (voices?.has(alias) ?? false)
}
