/** Characters that are decoded at a time: a multiple of four, and few enough for the processor's cache and a young object. */
const SLICE_CHARACTERS = 16 * 1024
const URL_SAFE = ['-', '_'] as const

/**
 * Decodes canonical RFC 4648 Base64; returns `null` for anything else. Node silently decodes junk, missing padding and
 * stray bits, so only text that encodes back to itself is accepted: every character adds six bits, none belongs to the
 * URL-safe alphabet, and the last group, where alone bits can be left over, is encoded again.
 *
 * `encoded` may be the bytes of the text, which are then never in memory as a string.
 */
export function decodeCanonicalBase64(encoded: string | Buffer): Buffer | null {
  const { length } = encoded
  if (length === 0 || length % 4 !== 0) return null
  // Node takes a character beyond Latin-1 for the one with the same low byte.
  if (typeof encoded === 'string' && Buffer.byteLength(encoded) !== length) return null
  const lastGroup = textOf(encoded, length - 4, length)
  const padding = lastGroup.endsWith('==') ? 2 : lastGroup.endsWith('=') ? 1 : 0
  // Not from the pool: the memory of an upload is transferred to another thread.
  const bytes = Buffer.allocUnsafeSlow((length / 4) * 3 - padding)
  for (let start = 0; start < length; start += SLICE_CHARACTERS) {
    const text = textOf(encoded, start, Math.min(start + SLICE_CHARACTERS, length))
    const at = (start / 4) * 3
    const expectedBytes = Math.min((SLICE_CHARACTERS / 4) * 3, bytes.length - at)
    if (URL_SAFE.some((character) => text.includes(character))) return null
    if (bytes.write(text, at, 'base64') !== expectedBytes) return null
  }
  return bytes.toString('base64', (length / 4 - 1) * 3) === lastGroup ? bytes : null
}

function textOf(encoded: string | Buffer, start: number, end: number): string {
  return typeof encoded === 'string' ? encoded.slice(start, end) : encoded.toString('latin1', start, end)
}
