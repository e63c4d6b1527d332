import { z } from 'zod'
import { type AtomicAmount, atomicAmount, atomicFromDollars, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { clamp } from '#shared/money/rounding.ts'
import { type PricedQuantity, roundedPrice } from './calculation.ts'
import type { Quote } from './quote.ts'

/** The bounds of one call, in decimal dollars, as the terms of a quote carry them. */
export const chargeBounds = {
  minimum_charge_usd: z.string(),
  maximum_charge_usd: z.string(),
  /** What settling the charge was expected to cost, where that is above the minimum: no less is charged. */
  gas_minimum_charge_usd: z.string().optional(),
}

/** Reads the bounds from the terms of any operation. */
export const chargeBoundsSchema = z.looseObject(chargeBounds)

type ChargeBounds = z.infer<z.ZodObject<typeof chargeBounds>>

/**
 * Returns the price of the quantities, rounded up once, raised to the minimum and capped at the maximum of one call.
 */
export function boundedCharge(quantities: readonly PricedQuantity[], bounds: ChargeBounds): AtomicAmount {
  const minimum = atomicFromDollars(bounds.minimum_charge_usd)
  const gasMinimum = atomicFromDollars(bounds.gas_minimum_charge_usd ?? '0')
  const maximum = atomicFromDollars(bounds.maximum_charge_usd)
  const price = roundedPrice(quantities)
  return atomicAmount(clamp(price < gasMinimum ? gasMinimum : price, minimum, maximum))
}

/**
 * Returns the minimum charge of a call whose settlement is expected to cost `expectedGas`, at most the maximum of one call.
 * `null` where it is not above the published minimum.
 */
function gasMinimumCharge(bounds: ChargeBounds, expectedGas: AtomicAmount): AtomicAmount | null {
  const maximum = atomicFromDollars(bounds.maximum_charge_usd)
  const gasMinimum = expectedGas < maximum ? expectedGas : maximum
  return gasMinimum > atomicFromDollars(bounds.minimum_charge_usd) ? gasMinimum : null
}

/** Returns a quote whose minimum charge follows the expected cost of its settlement. */
export function raisedToGas<Terms>(quote: Quote<Terms>, expectedGas: AtomicAmount): Quote<Terms> {
  const gasMinimum = gasMinimumCharge(chargeBoundsSchema.parse(quote.terms), expectedGas)
  if (gasMinimum === null) return quote
  return {
    ...quote,
    quotedMaximum: quote.quotedMaximum > gasMinimum ? quote.quotedMaximum : gasMinimum,
    terms: { ...quote.terms, gas_minimum_charge_usd: dollarsFromAtomic(gasMinimum) },
  }
}
