const DECIMALS = 6

/** Parses a decimal amount such as `0.15` exactly. Throws `RangeError` for any other text or more than six decimals. */
export function parseUsdc(amount: string): bigint {
  const atomic = readUsdc(amount)
  if (atomic === null)
    throw new RangeError(`not an amount of USDC with at most six decimals: ${JSON.stringify(amount)}`)
  return atomic
}

/** Parses what a service states as an amount; `null` for anything else. */
export function readUsdc(amount: unknown): bigint | null {
  const match = typeof amount === 'string' ? /^(\d+)(?:\.(\d{1,6}))?$/.exec(amount) : null
  if (!match) return null
  const [, whole = '0', fraction = ''] = match
  return BigInt(whole + fraction.padEnd(DECIMALS, '0'))
}

/** Returns the larger of two amounts. */
export function larger(one: bigint, other: bigint): bigint {
  return one > other ? one : other
}

/** Renders atomic units as decimal USDC without trailing zeros. */
export function formatUsdc(atomic: bigint): string {
  return atomic < 0n ? `-${formatUnits(-atomic, DECIMALS)}` : formatUnits(atomic, DECIMALS)
}

/** Renders units that are not negative as decimals of a larger one without trailing zeros. */
export function formatUnits(units: bigint, decimals: number): string {
  const digits = units.toString().padStart(decimals + 1, '0')
  const fraction = digits.slice(-decimals).replace(/0+$/, '')
  const whole = digits.slice(0, -decimals)
  return fraction === '' ? whole : `${whole}.${fraction}`
}
