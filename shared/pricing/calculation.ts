import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { exactDecimal, type Fraction, sumOf } from '#shared/money/fraction.ts'
import { atomicRoundedUp, priceOf, unitPrice } from '#shared/money/unit-price.ts'

/** One measured quantity with a price. A charge is a sum of these. */
export interface PricedQuantity {
  /** The field of `usage`, or what is left of one besides its parts. */
  readonly usage: string
  readonly measured: number
  /** The maximum that the quote proved; no more is charged. `null` where the quantity is known beforehand. */
  readonly atMost: number | null
  readonly unit: string
  /** Decimal dollars for every `units` units. */
  readonly priceUsd: string
  readonly units: bigint
}

/** The rounding rule of every charge, as receipts state it. */
const ROUNDING = 'up, once, to 0.000001 USDC'

/** Returns the sum in atomic USDC, rounded up once; products and sum are exact. Ignores minimum and maximum. */
export function roundedPrice(quantities: readonly PricedQuantity[]): AtomicAmount {
  return atomicRoundedUp(exactSum(quantities))
}

/** Returns the units that are charged. */
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
 * Writes out a charge for a receipt, so that it can be recomputed by hand. Dollars are exact: decimals, or fractions in
 * lowest terms where the decimals never end. `gasMinimum` is `null` where the minimum does not follow the gas, `maximum` the
 * lower of the quoted and the authorized maximum.
 */
export function writeCalculation(
  quantities: readonly PricedQuantity[],
  {
    minimum,
    gasMinimum = null,
    maximum,
  }: { minimum: AtomicAmount; gasMinimum?: AtomicAmount | null; maximum: AtomicAmount },
) {
  const rounded = roundedPrice(quantities)
  const [least, raisedBy] =
    gasMinimum !== null && gasMinimum > minimum
      ? ([gasMinimum, 'gas_minimum'] as const)
      : ([minimum, 'minimum'] as const)
  const atLeast = rounded < least ? least : rounded
  const charge = atLeast > maximum ? maximum : atLeast
  const raised = rounded < least ? raisedBy : 'none'
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
    ...(gasMinimum === null ? {} : { gas_minimum_atomic: gasMinimum.toString() }),
    maximum_atomic: maximum.toString(),
    applied: atLeast > maximum ? 'maximum' : raised,
    charge_atomic: charge.toString(),
  } as const
}
