/** Clocks may differ by this much. */
export const CLOCK_TOLERANCE_MS = 5000

/** Returns by how much this machine's clock differs from the server's, which every answer states; `null` if it hardly does. */
export function clockDifference(headers: Headers, now: number): string | null {
  const difference = now - Date.parse(headers.get('date') ?? '')
  if (!(Math.abs(difference) > CLOCK_TOLERANCE_MS)) return null
  const seconds = Math.round(Math.abs(difference) / 1000)
  const length = seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`
  return `This machine’s clock is ${length} ${difference > 0 ? 'ahead of' : 'behind'} the server’s.`
}
