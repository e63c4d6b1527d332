import { type Catalog, findModel } from '#shared/catalog/catalog.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'

/** Returns whether a deployment serves the model: the catalog lists only those, and others have no price. */
export function isAvailable(catalog: Catalog, { category }: AnyOperation, publicModel: string): boolean {
  return findModel(catalog, category, publicModel) !== undefined
}

/** Throws `model_unavailable` (503) for a model that no deployment serves. */
export function requireAvailable(catalog: Catalog, operation: AnyOperation, publicModel: string): void {
  if (!isAvailable(catalog, operation, publicModel)) throw new AppError('model_unavailable', { param: 'model' })
}
