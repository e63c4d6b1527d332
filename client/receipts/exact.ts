/** A fraction with a positive denominator: receipts state prices and sums without rounding. */
export interface Exact {
  readonly numerator: bigint
  readonly denominator: bigint
}

export const ZERO: Exact = { numerator: 0n, denominator: 1n }

/** Reads `12`, `0.122` or `226493/45000000`. Throws `RangeError` for any other text. */
export function parseExact(text: string): Exact {
  const match = /^(\d{1,40})(?:\.(\d{1,40})|\/([1-9]\d{0,40}))?$/.exec(text)
  if (match === null) throw new RangeError(`${JSON.stringify(text)} is not an exact amount`)
  const [, whole = '', decimals = '', divisor = ''] = match
  if (divisor !== '') return { numerator: BigInt(whole), denominator: BigInt(divisor) }
  return { numerator: BigInt(whole + decimals), denominator: 10n ** BigInt(decimals.length) }
}

export function add(a: Exact, b: Exact): Exact {
  return {
    numerator: a.numerator * b.denominator + b.numerator * a.denominator,
    denominator: a.denominator * b.denominator,
  }
}

/** Returns `exact` × `by` ÷ `per`. */
export function scale({ numerator, denominator }: Exact, by: bigint, per = 1n): Exact {
  return { numerator: numerator * by, denominator: denominator * per }
}

export function isEqual(a: Exact, b: Exact): boolean {
  return a.numerator * b.denominator === b.numerator * a.denominator
}

export function roundUp({ numerator, denominator }: Exact): bigint {
  return (numerator + denominator - 1n) / denominator
}
