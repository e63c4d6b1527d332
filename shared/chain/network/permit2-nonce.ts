/** Permit2 stores used nonces as bits: the lowest 8 bits of a nonce select the bit, the others the 256-bit word. */
const BIT_INDEX_BITS = 8n
const BIT_INDEX_MASK = 255n

/** Returns the word index to pass to `nonceBitmap`. */
export function wordOfNonce(nonce: bigint): bigint {
  return nonce >> BIT_INDEX_BITS
}

/** Returns whether the nonce's bit is set in `bitmap`, its word or a mask of that. */
export function hasNonce(bitmap: bigint, nonce: bigint): boolean {
  return ((bitmap >> (nonce & BIT_INDEX_MASK)) & 1n) === 1n
}
