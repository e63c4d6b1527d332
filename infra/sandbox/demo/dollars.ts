/** Formats atomic USDC with all six decimals, so that amounts are aligned. */
export function dollars(atomic: bigint): string {
  return `${atomic / 1_000_000n}.${(atomic % 1_000_000n).toString().padStart(6, '0')}`
}
