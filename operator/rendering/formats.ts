import { SHOWN_KEY_CHARACTERS } from '#shared/operators/findings.ts'

const ATOMIC_DIGITS = 6
const WEI_DIGITS = 18
const SHOWN_ETH_DIGITS = 6

/** Renders atomic USDC with all six decimals, so that columns align: 5034n is `0.005034`. */
function usdc(atomic: bigint): string {
  return decimal(atomic, ATOMIC_DIGITS)
}

/** Renders wei as ETH with six decimals, cut off. */
function eth(wei: bigint): string {
  return decimal(wei / 10n ** BigInt(WEI_DIGITS - SHOWN_ETH_DIGITS), SHOWN_ETH_DIGITS)
}

function decimal(value: bigint, places: number): string {
  const digits = (value < 0n ? -value : value).toString().padStart(places + 1, '0')
  const whole = digits.slice(0, -places).replace(/\B(?=(\d{3})+$)/g, ',')
  return `${value < 0n ? '-' : ''}${whole}.${digits.slice(-places)}`
}

/** Renders a count with thousands separators. */
function count(value: number | bigint): string {
  return value.toString().replace(/\B(?=(\d{3})+$)/g, ',')
}

/** Renders a count with its noun: `1 call`, `2 calls`. */
function counted(value: number | bigint, singular: string, plural = `${singular}s`): string {
  return `${count(value)} ${BigInt(value) === 1n ? singular : plural}`
}

/** Renders a moment in UTC to the second, such as `2026-11-22T20:15:07Z`. */
function time(moment: Date): string {
  return `${moment.toISOString().slice(0, 19)}Z`
}

const UNITS = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'min'],
  [1, 's'],
] as const

/** Renders a number of seconds by its largest unit, such as `3 min`. */
function duration(seconds: number): string {
  const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? [1, 's']
  return `${Math.floor(seconds / size)} ${unit}`
}

/** Renders how long ago a moment was, such as `3 min ago`, or `in 2 h` for a later one. */
function age(moment: Date, now: Date): string {
  const seconds = (now.getTime() - moment.getTime()) / 1000
  return seconds >= 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`
}

/** Renders milliseconds: `87 ms`, `1.25 s`. */
function milliseconds(value: number): string {
  return value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(2)} s`
}

/** Renders what identifies an idempotency key to its owner; the whole key is a capability and never shown. */
function idempotencyKey(key: string): string {
  // Of a short key a part, which is not enough to use it.
  const shown = Math.min(SHOWN_KEY_CHARACTERS, Math.floor(key.length / 2))
  return `${key.slice(0, shown)}… (${key.length} characters)`
}

/** Shortens an address, hash or id for a table; the page behind its link has all of it. */
function short(id: string): string {
  return id.length <= 14 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`
}

/** What templates read as `it.format`. */
export const FORMATS = { usdc, eth, count, counted, time, age, duration, milliseconds, idempotencyKey, short } as const
