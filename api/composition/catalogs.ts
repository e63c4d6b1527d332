import { readFile } from 'node:fs/promises'
import { Gauge, type Registry } from 'prom-client'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { compareWithCost, describeBelowCost } from '#shared/catalog/vendor-cost.ts'
import { findCatalog, recordCatalog } from '#shared/ledger/configuration/catalogs.ts'
import { createConfigurationReader } from '#shared/ledger/configuration/configuration-reader.ts'
import { importFirstFiles } from '#shared/ledger/configuration/import-files.ts'
import type { Pool } from '#shared/ledger/pool.ts'
import { type CatalogPair, catalogsOf } from '#shared/operators/catalogs-of-configuration.ts'
import type { Switches } from '#shared/operators/configuration.ts'
import type { ConfigurationFile } from '#shared/operators/publication.ts'
import { readCatalogContent, readDeploymentsContent } from '#shared/operators/validate-configuration.ts'
import { type ConfigurationWatch, watchConfiguration } from '#shared/operators/watch-configuration.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { namingSetting } from '#shared/runtime/start-process.ts'
import type { ApiConfig } from '../config.ts'
import type { Catalogs } from '../request/live-catalog.ts'

/** The files that this process was started with, and the catalogs that follow from them. */
export interface StartCatalogs extends CatalogPair {
  readonly files: readonly ConfigurationFile[]
}

/**
 * Reads the files: what is offered until the database can be read, and what is imported when it is new. Only ids of
 * models, aliases of voices and limits are taken from the private file.
 */
export async function readCatalogs({
  CATALOG_FILE: catalogFile,
  DEPLOYMENTS_FILE: deploymentsFile,
}: ApiConfig): Promise<StartCatalogs> {
  const catalog = await namingSetting('CATALOG_FILE', async () =>
    catalogFile === undefined ? null : readCatalogContent(await readFile(catalogFile, 'utf8')),
  )
  return await namingSetting('DEPLOYMENTS_FILE', async () => {
    const deployments = readDeploymentsContent(await readFile(deploymentsFile, 'utf8'))
    return {
      ...catalogsOf({ overrides: catalog ?? { models: {} }, file: deployments.file }, 'refuse'),
      files: [
        ...(catalog === null ? [] : [{ kind: 'catalog', content: catalog } as const]),
        { kind: 'deployments', content: deployments.content },
      ],
    }
  })
}

interface LiveCatalogDependencies {
  readonly metrics: Registry
  readonly pool: Pool
  readonly logger: Logger
}

/** Opens the catalogs, and the list of blocked payers, that follow what operators publish and switch. Waits for the first reading, successful or not. */
export async function openCatalogs(
  { files, ...atStart }: StartCatalogs,
  resources: AsyncDisposableStack,
  { pool, metrics, logger }: LiveCatalogDependencies,
): Promise<{
  readonly catalogs: Catalogs
  /** Returns whether operators block a payer, whose address is in lower case. */
  readonly isBlocked: (payer: string) => boolean
  readonly watch: ConfigurationWatch
}> {
  let current: CatalogPair = atStart
  let blocked: Switches['blockedPayers'] = new Map()
  const soldBelowCost = new Gauge({
    name: 'farebox_model_below_cost',
    help: '1 for each model of which a price is below what one of its deployments costs',
    labelNames: ['model'],
    registers: [metrics],
  })
  const quoted = new Map<string, Catalog>()
  const recorded = new Set<string>()
  const record = async (catalog: Catalog) => {
    if (recorded.has(catalog.version)) return
    await recordCatalog(pool, catalog)
    recorded.add(catalog.version)
  }
  const remember = (pair: CatalogPair) => {
    current = pair
    quoted.set(pair.offered.version, pair.offered)
  }
  remember(atStart)
  const watch = watchConfiguration({
    reader: createConfigurationReader(pool),
    prepare: async () => {
      for (const kind of await importFirstFiles(pool, files))
        logger.warn(
          `the ${kind} file of this process is not the one that was imported last, and is not in force; to publish it run npm run ${kind} -- import FILE`,
        )
    },
    applySwitches: ({ blockedPayers }) => {
      blocked = blockedPayers
    },
    apply: async (configuration) => {
      const pair = catalogsOf(
        {
          overrides: configuration.catalog.overrides,
          file: configuration.deployments.file,
          controls: configuration.controls,
        },
        'withhold',
      )
      await record(pair.offered)
      remember(pair)
      const { belowCost } = compareWithCost(pair.published, configuration.deployments.file)
      soldBelowCost.reset()
      for (const each of belowCost) {
        logger.warn(describeBelowCost(each))
        soldBelowCost.set({ model: each.model }, 1)
      }
    },
    logger,
  })
  resources.defer(() => watch.close())
  await watch.firstPoll
  const catalogs: Catalogs = {
    offered: () => current.offered,
    published: () => current.published,
    find: async (version) => {
      const known = quoted.get(version) ?? (await findCatalog(pool, version))
      if (known) quoted.set(version, known)
      return known
    },
    record: async (version) => {
      const catalog = recorded.has(version) ? null : quoted.get(version)
      if (catalog) await record(catalog)
    },
  }
  const isBlocked = (payer: string) => {
    const until = blocked.get(payer)
    // A block whose end cannot be read has none.
    return until === null || (until !== undefined && !(until <= new Date()))
  }
  return { catalogs, isBlocked, watch }
}
