/** A multiple of three, so that every slice but the last has no padding. */
const SLICE_BYTES = 3 * 65_536

/**
 * Decodes canonical RFC 4648 Base64; `null` for anything else. Node decodes junk, missing padding and stray bits without
 * complaint, so only text that encodes back to itself is accepted. Held against it slice by slice: whole, an upload would
 * be in memory once more.
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
