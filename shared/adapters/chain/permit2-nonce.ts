/** Permit2 keeps used nonces as bits: the lowest 8 bits of a nonce name the bit, the others the word of 256 that it is in. */
const BIT_INDEX_BITS = 8n
const BIT_INDEX_MASK = 255n

/** The word that `nonceBitmap` is asked for. */
export function wordOfNonce(nonce: bigint): bigint {
  return nonce >> BIT_INDEX_BITS
}

/** Whether `bitmap`, the nonce's word or a mask over it, has the nonce's bit. */
export function hasNonce(bitmap: bigint, nonce: bigint): boolean {
  return ((bitmap >> (nonce & BIT_INDEX_MASK)) & 1n) === 1n
}
