const ATOMIC_PER_USDC = 1_000_000n

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
  return BigInt(whole) * ATOMIC_PER_USDC + BigInt(fraction.padEnd(6, '0'))
}

/** Returns the larger of two amounts. */
export function larger(one: bigint, other: bigint): bigint {
  return one > other ? one : other
}

/** Renders atomic units as decimal USDC without trailing zeros. */
export function formatUsdc(atomic: bigint): string {
  if (atomic < 0n) return `-${formatUsdc(-atomic)}`
  const fraction = (atomic % ATOMIC_PER_USDC).toString().padStart(6, '0').replace(/0+$/, '')
  const whole = (atomic / ATOMIC_PER_USDC).toString()
  return fraction === '' ? whole : `${whole}.${fraction}`
}
