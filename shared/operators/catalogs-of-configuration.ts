import { overrideCatalogWith } from '#shared/catalog/catalog-file.ts'
import type { Catalog } from '#shared/catalog/catalog.ts'
import {
  carriersOf,
  type DeploymentsFile,
  parseDeployments,
  servedModels,
  servedOutputTokens,
} from '#shared/catalog/deployments-file.ts'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { transcriptionChoices } from '#shared/operations/vendors/carriers.ts'
import type { DeploymentControl } from './configuration.ts'

/** What follows from a configuration. */
export interface CatalogPair {
  /** All models that the catalog has, whether or not a deployment serves them. */
  readonly published: Catalog
  /** What callers can use now. */
  readonly offered: Catalog
}

interface CatalogSources {
  readonly overrides: JsonValue
  readonly file: DeploymentsFile
  readonly controls?: ReadonlyMap<string, DeploymentControl>
}

/** Returns the catalogs that follow from two contents while no deployment is drained. */
export function catalogsOfContents(contents: { readonly catalog: JsonValue; readonly deployments: JsonValue }) {
  return catalogsOf({ overrides: contents.catalog, file: parseDeployments(contents.deployments) }, 'withhold')
}

/**
 * Returns the catalogs that follow from a configuration. A drained deployment serves nothing. A speech model without a
 * deployment that has its default voice is refused with an `Error`, or withheld where the configuration is in force.
 */
export function catalogsOf(
  { overrides, file, controls }: CatalogSources,
  withoutDefaultVoice: 'refuse' | 'withhold',
): CatalogPair {
  const published = overrideCatalogWith(publishedCatalog, overrides)
  const serving = { deployments: file.deployments.filter(({ name }) => !controls?.get(name)?.isDrained) }
  const carriers = carriersOf(serving)
  const offered = availableCatalog(published, servedModels(serving), {
    outputTokens: servedOutputTokens(serving),
    transcriptionChoices: transcriptionChoices(carriers),
    withoutDefaultVoice,
  })
  return { published, offered: { ...offered, carriers } }
}
