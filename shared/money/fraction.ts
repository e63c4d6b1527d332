/** An exact non-negative quantity of dollars; the denominator is positive. */
export interface Fraction {
  readonly numerator: bigint
  readonly denominator: bigint
}

/** Returns the exact sum; 0 for no fractions. */
export function sumOf(fractions: readonly Fraction[]): Fraction {
  return fractions.reduce<Fraction>(
    (sum, { numerator, denominator }) => ({
      numerator: sum.numerator * denominator + numerator * sum.denominator,
      denominator: sum.denominator * denominator,
    }),
    { numerator: 0n, denominator: 1n },
  )
}

/**
 * Returns a decimal without trailing zeros, such as `0.0000084`, or `n/d` in lowest terms where the decimals never end.
 */
export function exactDecimal({ numerator, denominator }: Fraction): string {
  const divisor = greatestCommonDivisor(numerator, denominator)
  const [n, d] = [numerator / divisor, denominator / divisor]
  const places = decimalPlaces(d)
  if (places === null) return `${n}/${d}`
  const digits = ((n * 10n ** BigInt(places)) / d).toString().padStart(places + 1, '0')
  return places === 0 ? digits : `${digits.slice(0, -places)}.${digits.slice(-places)}`
}

/** Counts the decimal places of 1/denominator; `null` when a prime other than 2 and 5 divides the denominator. */
function decimalPlaces(denominator: bigint): number | null {
  let [rest, twos, fives] = [denominator, 0, 0]
  for (; rest % 2n === 0n; rest /= 2n) twos += 1
  for (; rest % 5n === 0n; rest /= 5n) fives += 1
  return rest === 1n ? Math.max(twos, fives) : null
}

function greatestCommonDivisor(left: bigint, right: bigint): bigint {
  return right === 0n ? left : greatestCommonDivisor(right, left % right)
}
