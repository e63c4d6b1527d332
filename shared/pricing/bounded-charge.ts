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
  return withinBounds(roundedPrice(quantities), bounds)
}

/** Returns a price, raised to the minimum and capped at the maximum of one call. */
export function withinBounds(price: AtomicAmount, bounds: ChargeBounds): AtomicAmount {
  const minimum = atomicFromDollars(bounds.minimum_charge_usd)
  const gasMinimum = atomicFromDollars(bounds.gas_minimum_charge_usd ?? '0')
  const maximum = atomicFromDollars(bounds.maximum_charge_usd)
  return atomicAmount(clamp(price < gasMinimum ? gasMinimum : price, minimum, maximum))
}

const gasMinimumSchema = z.object({ gas_minimum_charge_usd: z.string().optional() })

/** Returns the minimum charge that followed the gas, from the terms of any operation; `undefined` where none did. */
export function gasMinimumOf(terms: unknown): string | undefined {
  return gasMinimumSchema.parse(terms).gas_minimum_charge_usd
}

/** Returns what a call costs at least for the gas of its settlement: at most the maximum of one call. */
export function gasMinimumCharge(maximumUsd: string, expectedGas: AtomicAmount): AtomicAmount {
  const maximum = atomicFromDollars(maximumUsd)
  return expectedGas < maximum ? expectedGas : maximum
}

/** Returns a quote whose minimum charge follows the expected cost of its settlement, where that is above the published one. */
export function raisedToGas<Terms>(quote: Quote<Terms>, expectedGas: AtomicAmount): Quote<Terms> {
  const { minimum_charge_usd: minimum, maximum_charge_usd: maximum } = chargeBoundsSchema.parse(quote.terms)
  const gasMinimum = gasMinimumCharge(maximum, expectedGas)
  if (gasMinimum <= atomicFromDollars(minimum)) return quote
  return {
    ...quote,
    quotedMaximum: quote.quotedMaximum > gasMinimum ? quote.quotedMaximum : gasMinimum,
    terms: { ...quote.terms, gas_minimum_charge_usd: dollarsFromAtomic(gasMinimum) },
  }
}
