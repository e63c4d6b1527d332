type Hex = `0x${string}`

/** Half of the curve's order: USDC refuses a signature whose `s` is above it. */
const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n
const PARITY_BIT = 1n << 255n
const COMPACT_LENGTH = 130
const V_OF_EVEN = 27n

/** A signature in any of the forms that wallets return. */
export type WalletSignature =
  | { readonly signature: string }
  | { readonly r: string; readonly s: string; readonly v: 0 | 1 | 27 | 28 }

/**
 * Returns the 65 bytes r, s, v with a v of 27 or 28, from 65 bytes, the 64 of EIP-2098, or the three numbers. Returns
 * `null` for a v that does not exist or a high `s`, which the asset refuses.
 */
export function normalizeSignature(given: WalletSignature): Hex | null {
  const { r, s, v } =
    'signature' in given ? split(given.signature) : { ...given, s: BigInt(given.s), v: BigInt(given.v) }
  const recovery = v < V_OF_EVEN ? v + V_OF_EVEN : v
  if (s > HALF_ORDER || recovery > V_OF_EVEN + 1n) return null
  const digits = [r.slice(2), s.toString(16).padStart(64, '0'), recovery.toString(16)]
  return `0x${digits.join('').toLowerCase()}`
}

function split(signature: string): { r: string; s: bigint; v: bigint } {
  const [r, second] = [signature.slice(0, 66), BigInt(`0x${signature.slice(66, 130)}`)]
  if (signature.length > COMPACT_LENGTH) return { r, s: second, v: BigInt(`0x${signature.slice(130)}`) }
  // EIP-2098 keeps the parity in the highest bit of s.
  return { r, s: second & (PARITY_BIT - 1n), v: second >> 255n }
}
