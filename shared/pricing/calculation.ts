import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { exactDecimal, type Fraction, sumOf } from '#shared/money/fraction.ts'
import { atomicRoundedUp, priceOf, unitPrice } from '#shared/money/unit-price.ts'

/** One measured quantity that has a price; what a charge is the sum of. */
export interface PricedQuantity {
  /** The field of `usage`. */
  readonly usage: string
  readonly measured: number
  /** What was proven of the request before; no more is charged. `null` where the quantity is known beforehand. */
  readonly atMost: number | null
  readonly unit: string
  /** Decimal dollars for every `units` of them. */
  readonly priceUsd: string
  readonly units: bigint
}

/** How every charge is rounded. */
const ROUNDING = 'up, once, to 0.000001 USDC'

/** The sum in atomic USDC, rounded up once: each product and the sum are exact. Before minimum and maximum. */
export function roundedPrice(quantities: readonly PricedQuantity[]): AtomicAmount {
  return atomicRoundedUp(exactSum(quantities))
}

/** How many units count. */
function billed({ measured, atMost }: PricedQuantity): bigint {
  return BigInt(atMost === null ? measured : Math.min(measured, atMost))
}

function product(quantity: PricedQuantity): Fraction {
  return priceOf(unitPrice(quantity.priceUsd, quantity.units), billed(quantity))
}

function exactSum(quantities: readonly PricedQuantity[]): Fraction {
  return sumOf(quantities.map(product))
}

/**
 * A charge written out for a receipt, so that it can be recomputed by hand. Dollars are exact: decimals, or fractions in
 * lowest terms where the decimals never end. `maximum` is the lower one of quoted and authorized maximum.
 */
export function writeCalculation(
  quantities: readonly PricedQuantity[],
  { minimum, maximum }: { minimum: AtomicAmount; maximum: AtomicAmount },
) {
  const rounded = roundedPrice(quantities)
  const atLeast = rounded < minimum ? minimum : rounded
  const charge = atLeast > maximum ? maximum : atLeast
  const raised = rounded < minimum ? 'minimum' : 'none'
  return {
    lines: quantities.map((quantity) => ({
      usage: quantity.usage,
      measured: quantity.measured,
      at_most: quantity.atMost,
      quantity: billed(quantity).toString(),
      unit: quantity.unit,
      unit_price_usd: quantity.priceUsd,
      per_units: quantity.units.toString(),
      product_usd: exactDecimal(product(quantity)),
    })),
    sum_usd: exactDecimal(exactSum(quantities)),
    rounding: ROUNDING,
    rounded_atomic: rounded.toString(),
    minimum_atomic: minimum.toString(),
    maximum_atomic: maximum.toString(),
    applied: atLeast > maximum ? 'maximum' : raised,
    charge_atomic: charge.toString(),
  } as const
}
