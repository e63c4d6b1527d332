import { type Catalog, findModel } from '#shared/catalog/catalog.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'

/** The catalog lists only what a deployment serves; anything else has no price. */
export function isAvailable(catalog: Catalog, { category }: AnyOperation, publicModel: string): boolean {
  return findModel(catalog, category, publicModel) !== undefined
}

/** A known model that nobody serves is not quoted. Throws `model_unavailable` (503). */
export function requireAvailable(catalog: Catalog, operation: AnyOperation, publicModel: string): void {
  if (!isAvailable(catalog, operation, publicModel)) throw new AppError('model_unavailable', { param: 'model' })
}
