import { type Catalog, createCatalog } from './catalog.ts'
import { publishedModels } from './published-models.ts'
import { publishedVoices } from './voices.ts'

/** Everything that the interface publishes, before an operator's overrides and before any deployment is looked at. */
export const publishedCatalog: Catalog = createCatalog({ models: publishedModels, voices: publishedVoices })

/**
 * The part of a catalog that can be used: models that some deployment serves. What is left out of it is neither listed nor
 * quoted (specification, What the service does 4). The version follows the content, so it changes with availability.
 */
export function availableCatalog(catalog: Catalog, modelIdsWithDeployment: ReadonlySet<string>): Catalog {
  return createCatalog({
    models: catalog.models.filter(({ id }) => modelIdsWithDeployment.has(id)),
    voices: catalog.voices,
  })
}
