import { type AtomicAmount, atomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import type { Catalog } from './catalog.ts'
import type { CategoryId } from './categories.ts'

/** The bounds of every charge of an endpoint, whichever of its models is called, in decimal dollars. */
export interface PriceBounds {
  readonly minimumChargeUsd: string
  readonly maximumChargeUsd: string
}

/** Returns the bounds over all models of a category, or `undefined` when the catalog has none. */
export function priceBounds(catalog: Catalog, category: CategoryId): PriceBounds | undefined {
  const models = catalog.models.filter((model) => model.category === category)
  const minima = models.map(({ minimumChargeUsd }) => minimumChargeUsd).sort(byAmount)
  const maxima = models.map(({ maximumChargeUsd }) => maximumChargeUsd).sort(byAmount)
  const [minimumChargeUsd, maximumChargeUsd] = [minima.at(0), maxima.at(-1)]
  return minimumChargeUsd === undefined || maximumChargeUsd === undefined
    ? undefined
    : { minimumChargeUsd, maximumChargeUsd }
}

/** Returns the highest price that one call can have. */
export function highestPrice({ models }: Catalog): AtomicAmount {
  return models
    .map(({ maximumChargeUsd }) => atomicFromDollars(maximumChargeUsd))
    .reduce((highest, price) => (price > highest ? price : highest), atomicAmount(0n))
}

function byAmount(left: string, right: string): number {
  return Number(atomicFromDollars(left) - atomicFromDollars(right))
}
