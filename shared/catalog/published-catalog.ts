import { type Catalog, createCatalog } from './catalog.ts'
import { publishedModels } from './published-models.ts'
import { publishedVoices } from './voices.ts'

/** Everything that the interface publishes, before an operator's overrides and regardless of deployments. */
export const publishedCatalog: Catalog = createCatalog({ models: publishedModels, voices: publishedVoices })

/**
 * Returns the usable part of a catalog: models that some deployment serves. All others are neither listed nor quoted.
 * The version follows the content, so it changes with availability.
 */
export function availableCatalog(catalog: Catalog, modelIdsWithDeployment: ReadonlySet<string>): Catalog {
  return createCatalog({
    models: catalog.models.filter(({ id }) => modelIdsWithDeployment.has(id)),
    voices: catalog.voices,
  })
}
