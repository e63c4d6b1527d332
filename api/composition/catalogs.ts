import { readFile } from 'node:fs/promises'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { overrideCatalog } from '#shared/catalog/catalog-file.ts'
import { parseDeploymentsFile, servedModels } from '#shared/catalog/deployments-file.ts'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { namingSetting } from '#shared/runtime/start-process.ts'
import type { ApiConfig } from '../config.ts'

/**
 * Reads the published catalog and the part of it that deployments serve. Only ids of models and aliases of voices are
 * taken from the private file.
 */
export async function readCatalogs({
  CATALOG_FILE: overrides,
  DEPLOYMENTS_FILE: file,
}: ApiConfig): Promise<{ published: Catalog; available: Catalog }> {
  const published = await namingSetting('CATALOG_FILE', async () =>
    overrides === undefined ? publishedCatalog : overrideCatalog(publishedCatalog, await readFile(overrides, 'utf8')),
  )
  const available = await namingSetting('DEPLOYMENTS_FILE', async () =>
    availableCatalog(published, servedModels(parseDeploymentsFile(await readFile(file, 'utf8')))),
  )
  return { published, available }
}
