import { type AtomicAmount, atomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { clamp } from '#shared/money/rounding.ts'
import { type PricedQuantity, roundedPrice } from './calculation.ts'

/** The published bounds of one call, in decimal dollars, as the terms of a quote carry them. */
export interface ChargeBounds {
  readonly minimum_charge_usd: string
  readonly maximum_charge_usd: string
}

/**
 * Returns the price of the quantities, rounded up once, raised to the minimum and capped at the maximum of one call.
 */
export function boundedCharge(quantities: readonly PricedQuantity[], bounds: ChargeBounds): AtomicAmount {
  const minimum = atomicFromDollars(bounds.minimum_charge_usd)
  const maximum = atomicFromDollars(bounds.maximum_charge_usd)
  return atomicAmount(clamp(roundedPrice(quantities), minimum, maximum))
}
