import type { FastifyInstance } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { z } from 'zod'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { RateLimiter } from '../limits/rate-limits.ts'
import type { Catalogs } from '../request/live-catalog.ts'
import type { catalogSchema } from '../schemas/catalogs.ts'
import { modelList } from './models.ts'
import { priceList } from './pricing.ts'
import { jsonRepresentation, type Representation, sendRepresentation } from './static-response.ts'
import { voiceList } from './voices.ts'

/** A version never changes. */
const CACHE_CONTROL = 'public, max-age=31536000, immutable'

const VERSION = /^catalog-[0-9a-f]{16}$/

/** Some hundred kilobytes; a version that is not among them is one indexed row. */
const KEPT_VERSIONS = 50

interface CatalogDependencies {
  readonly catalogs: Pick<Catalogs, 'find'>
  /** Versions that nobody was quoted are looked up in the ledger each time. */
  readonly limitRate: RateLimiter
}

/** Adds `GET /v1/catalogs/{version}`: what was offered, and at which prices, when a quote named this version. */
export function addCatalogRoutes(app: FastifyInstance, { catalogs, limitRate }: CatalogDependencies): void {
  const kept = new LRUCache<string, Representation>({ max: KEPT_VERSIONS })
  app.get('/v1/catalogs/:version', async (request, reply) => {
    limitRate(request, reply, 'openai')
    const { version } = request.params as { version: string }
    const known = kept.get(version) ?? (await render(catalogs, version))
    if (!known) throw new AppError('not_found', { message: 'No quote was made with a catalog of this version.' })
    kept.set(version, known)
    return await sendRepresentation(request, reply, known, CACHE_CONTROL)
  })
}

async function render(catalogs: Pick<Catalogs, 'find'>, version: string): Promise<Representation | null> {
  const catalog = VERSION.test(version) ? await catalogs.find(version) : null
  return catalog && jsonRepresentation(describeCatalog(catalog))
}

function describeCatalog(catalog: Catalog): z.infer<typeof catalogSchema> {
  const { version, common } = catalog
  return {
    object: 'catalog',
    catalog_version: version,
    service_fee_basis_points: common.serviceFeeBasisPoints,
    promotion: common.promotion,
    pricing: priceList(catalog).data,
    models: modelList(catalog).data,
    voices: voiceList(catalog).data,
  }
}
