/** A multiple of three, so that only the last slice has padding. */
const SLICE_BYTES = 3 * 65_536

/**
 * Decodes canonical RFC 4648 Base64; returns `null` for anything else. Node silently decodes junk, missing padding and
 * stray bits, so only text that encodes back to itself is accepted. The comparison runs slice by slice to avoid another
 * copy of a whole upload in memory.
 */
export function decodeCanonicalBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length === 0 || text.length !== Math.ceil(bytes.length / 3) * 4) return null
  for (let start = 0; start < bytes.length; start += SLICE_BYTES) {
    const encoded = bytes.toString('base64', start, start + SLICE_BYTES)
    const at = (start / 3) * 4
    if (text.slice(at, at + encoded.length) !== encoded) return null
  }
  return bytes
}
