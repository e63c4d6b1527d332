declare const atomic: unique symbol

/** An amount of USDC in atomic units (one millionth of a dollar). Money is never a `number`. */
export type AtomicAmount = bigint & { readonly [atomic]: true }

/** USDC has six decimals on every supported network. */
export const ATOMIC_PER_DOLLAR = 1_000_000n

/** Brands a non-negative bigint as atomic USDC. Throws `RangeError` below zero. */
export function atomicAmount(value: bigint): AtomicAmount {
  if (value < 0n) throw new RangeError(`an amount cannot be negative: ${value}`)
  return value as AtomicAmount
}

/** Parses the wire form: decimal digits without sign, exponent, prefix or leading zero. `null` for anything else. */
export function parseAtomicAmount(text: string): AtomicAmount | null {
  return /^(0|[1-9][0-9]{0,77})$/.test(text) ? atomicAmount(BigInt(text)) : null
}

/** Prices repeat: a quote reads those of its model several times. */
const REMEMBERED_PRICES = 1000
const pricesOfDollars = new Map<string, AtomicAmount>()

/** Parses a published price such as `0.122` exactly. Throws `RangeError` on more than six decimals or other text. */
export function atomicFromDollars(dollars: string): AtomicAmount {
  const known = pricesOfDollars.get(dollars)
  if (known !== undefined) return known
  const price = parseDollars(dollars)
  if (pricesOfDollars.size >= REMEMBERED_PRICES) pricesOfDollars.clear()
  pricesOfDollars.set(dollars, price)
  return price
}

function parseDollars(dollars: string): AtomicAmount {
  const match = /^(\d+)(?:\.(\d{1,6}))?$/.exec(dollars)
  if (!match) throw new RangeError(`not a dollar amount with at most six decimals: ${dollars}`)
  const [, whole = '0', fraction = ''] = match
  return atomicAmount(BigInt(whole) * ATOMIC_PER_DOLLAR + BigInt(fraction.padEnd(6, '0')))
}

/** Renders atomic USDC as decimal dollars without a trailing zero: 5034n is `0.005034`, 1000000n is `1`. */
export function dollarsFromAtomic(amount: AtomicAmount): string {
  const whole = amount / ATOMIC_PER_DOLLAR
  const fraction = (amount % ATOMIC_PER_DOLLAR).toString().padStart(6, '0').replace(/0+$/, '')
  return fraction === '' ? whole.toString() : `${whole}.${fraction}`
}
