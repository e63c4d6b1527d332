/** An exact fraction. Separate from the service's arithmetic, so that an error there is not repeated here. */
export interface Exact {
  readonly n: bigint
  readonly d: bigint
}

export const whole = (value: bigint | number | string): Exact => ({ n: BigInt(value), d: 1n })

/** Reads `12`, `0.122` and `226493/45000000`. Throws `Error` on anything else. */
export function parseExact(text: string): Exact {
  const fraction = /^(\d{1,40})\/([1-9]\d{0,40})$/.exec(text)
  if (fraction) return { n: BigInt(fraction[1] ?? 0), d: BigInt(fraction[2] ?? 1) }
  const decimal = /^(\d{1,40})(?:\.(\d{1,40}))?$/.exec(text)
  if (!decimal) throw new Error(`${JSON.stringify(text.slice(0, 100))} is not an exact number`)
  const [, integer = '', places = ''] = decimal
  return { n: BigInt(integer + places), d: 10n ** BigInt(places.length) }
}

export const plus = (a: Exact, b: Exact): Exact => ({ n: a.n * b.d + b.n * a.d, d: a.d * b.d })
export const times = (a: Exact, b: Exact): Exact => ({ n: a.n * b.n, d: a.d * b.d })
export const over = (a: Exact, b: Exact): Exact => ({ n: a.n * b.d, d: a.d * b.n })
export const equals = (a: Exact, b: Exact): boolean => a.n * b.d === b.n * a.d

/** Rounds up to a whole number. */
export const roundedUp = ({ n, d }: Exact): bigint => n / d + (n % d === 0n ? 0n : 1n)
