import { type AtomicAmount, atomicAmount, atomicFromDollars } from './atomic-amount.ts'
import { divideRoundingUp } from './rounding.ts'

/** An exact rational price: `atomicPerUnits` atomic USDC for every `units` measured units. */
export interface UnitPrice {
  readonly atomicPerUnits: AtomicAmount
  readonly units: bigint
}

/** A published price, for example `unitPrice('0.122', 3_600_000n)` for 0.122 USD an hour measured in milliseconds. */
export function unitPrice(dollars: string, units: bigint): UnitPrice {
  if (units <= 0n) throw new RangeError(`a price is for at least one unit: ${units}`)
  return { atomicPerUnits: atomicFromDollars(dollars), units }
}

/** What `quantity` units cost, in atomic USDC, rounded up once. */
export function priceOf(price: UnitPrice, quantity: bigint): AtomicAmount {
  return atomicAmount(divideRoundingUp(price.atomicPerUnits * quantity, price.units))
}
