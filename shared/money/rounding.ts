/** Divides two non-negative integers, rounding up: money is rounded once, upward, at the end. */
export function divideRoundingUp(dividend: bigint, divisor: bigint): bigint {
  if (dividend < 0n || divisor <= 0n) throw new RangeError(`cannot round ${dividend}/${divisor}`)
  return (dividend + divisor - 1n) / divisor
}

/** Limits `value` to the range between two bounds, both included. */
export function clamp(value: bigint, minimum: bigint, maximum: bigint): bigint {
  if (minimum > maximum) throw new RangeError(`empty range ${minimum}..${maximum}`)
  if (value < minimum) return minimum
  return value > maximum ? maximum : value
}
