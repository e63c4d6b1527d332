import { ATOMIC_PER_DOLLAR, type AtomicAmount, atomicAmount, atomicFromDollars } from './atomic-amount.ts'
import type { Fraction } from './fraction.ts'
import { divideRoundingUp } from './rounding.ts'

/** An exact rational price: `atomicPerUnits` atomic USDC for every `units` measured units. */
interface UnitPrice {
  readonly atomicPerUnits: AtomicAmount
  readonly units: bigint
}

/** Creates a published price: `unitPrice('0.122', 3_600_000n)` is 0.122 USD an hour measured in milliseconds. */
export function unitPrice(dollars: string, units: bigint): UnitPrice {
  if (units <= 0n) throw new RangeError(`a price is for at least one unit: ${units}`)
  return { atomicPerUnits: atomicFromDollars(dollars), units }
}

/** Returns the cost of `quantity` units in exact dollars. */
export function priceOf({ atomicPerUnits, units }: UnitPrice, quantity: bigint): Fraction {
  return { numerator: atomicPerUnits * quantity, denominator: ATOMIC_PER_DOLLAR * units }
}

/** Rounds exact dollars up to atomic USDC: done once, on the sum of everything that is charged. */
export function atomicRoundedUp({ numerator, denominator }: Fraction): AtomicAmount {
  return atomicAmount(divideRoundingUp(numerator * ATOMIC_PER_DOLLAR, denominator))
}
