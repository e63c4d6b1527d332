type Hex = `0x${string}`

/** What ends the signature of a wallet that may not be deployed yet. Source: ERC-6492. */
const MAGIC = '6492'.repeat(16)
const WORD_DIGITS = 64
/** The words before the signature's offset: the factory and the offset of its call. */
const OFFSET_WORD = 2

/** A signature as the payer's account takes it. */
export interface WalletSignature {
  readonly signature: Hex
  /** Whether it came in an envelope for a wallet that may not be deployed yet (ERC-6492). */
  readonly isWrapped: boolean
}

/**
 * Returns the signature without the envelope of ERC-6492, `abi.encode(address factory, bytes call, bytes signature)` and the
 * magic bytes: a deployed wallet takes only what is inside. One that cannot be opened is returned as it is.
 */
export function unwrapSignature(signature: Hex): WalletSignature {
  if (!signature.endsWith(MAGIC)) return { signature, isWrapped: false }
  const digits = signature.slice(2, -MAGIC.length)
  const start = wordAt(digits, OFFSET_WORD * WORD_DIGITS)
  const length = start === null ? null : wordAt(digits, start)
  if (start === null || length === null || length === 0) return { signature, isWrapped: true }
  const inner = digits.slice(start + WORD_DIGITS, start + WORD_DIGITS + length)
  return { signature: inner.length === length ? `0x${inner}` : signature, isWrapped: true }
}

/** Reads a number of bytes, as a number of digits; `null` for one that no header can hold. */
function wordAt(digits: string, position: number): number | null {
  const word = digits.slice(position, position + WORD_DIGITS)
  if (word.length !== WORD_DIGITS) return null
  const bytes = BigInt(`0x${word}`)
  return bytes * 2n > BigInt(digits.length) ? null : Number(bytes) * 2
}
