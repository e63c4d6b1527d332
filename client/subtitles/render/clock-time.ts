const two = (value: number) => String(Math.floor(value)).padStart(2, '0')

/** Returns `HH:MM:SS` and milliseconds; hours have as many digits as they need. */
export function clockTime(milliseconds: number, separator: ',' | '.'): string {
  const hours = two(milliseconds / 3_600_000)
  const minutes = two((milliseconds / 60_000) % 60)
  const seconds = two((milliseconds / 1000) % 60)
  return `${hours}:${minutes}:${seconds}${separator}${String(milliseconds % 1000).padStart(3, '0')}`
}
