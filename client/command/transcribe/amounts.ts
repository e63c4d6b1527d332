import { formatUsdc } from '../../budget/usdc.ts'

const USDC_DECIMALS = 6
const MS_PER_HOUR = 3_600_000

/** Renders a number with separators, such as `1,000`. */
export function count(number: number): string {
  return number.toLocaleString('en-US')
}

/** Renders a count with its noun, such as `1 file` and `2 files`. */
export function counted(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? '' : 's'}`
}

export function usdc(atomic: bigint): string {
  return `${formatUsdc(atomic)} USDC`
}

/** Renders an amount with all decimals, for columns. */
export function alignedUsdc(atomic: bigint): string {
  const [whole = '', decimals = ''] = formatUsdc(atomic).split('.')
  return `${whole}.${decimals.padEnd(USDC_DECIMALS, '0')} USDC`
}

/** Renders hours with two decimals. */
export function hours(durationMs: number): string {
  return `${(durationMs / MS_PER_HOUR).toFixed(2)} h`
}

/** Renders a duration with the two largest units that matter. */
export function duration(durationMs: number): string {
  const seconds = Math.round(durationMs / 1000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${pad(seconds % 60)} s`
  return `${Math.floor(minutes / 60)} h ${pad(minutes % 60)} min`
}

/** Renders a speed as a multiple of real time. */
export function speed(durationMs: number, elapsedMs: number): string {
  const multiple = elapsedMs > 0 ? durationMs / elapsedMs : 0
  return `${multiple < 10 ? multiple.toFixed(1) : count(Math.round(multiple))}× real time`
}

function pad(number: number): string {
  return number.toString().padStart(2, '0')
}
