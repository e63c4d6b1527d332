import { type Catalog, findModel } from '#shared/catalog/catalog.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'

/**
 * The catalog lists only what a deployment serves; a known model that nobody serves is not quoted. Throws
 * `model_unavailable` (503).
 */
export function requireAvailable(catalog: Catalog, operation: AnyOperation, effective: JsonValue): void {
  if (!findModel(catalog, operation.category, operation.publicModel(effective)))
    throw new AppError('model_unavailable', { param: 'model' })
}
