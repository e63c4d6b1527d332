/** Programs that write to a pipe do not know the size: they write one that no file of this format has. */
const UNKNOWN_FROM = 0x7f_ff_00_00
const CHUNK_HEADER_BYTES = 8
const FIRST_CHUNK = 12
/** Where a format chunk has the bytes of one second. */
const BYTE_RATE_AT = CHUNK_HEADER_BYTES + 8

/**
 * Returns the duration that the header of a WAV file claims, of which the file may have only a part. ffmpeg states what is
 * there. `undefined` if it is no WAV file or the header does not say.
 */
export function statedMs(content: Uint8Array): number | undefined {
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength)
  const nameAt = (offset: number) => String.fromCharCode(...content.subarray(offset, offset + 4))
  if (nameAt(0) !== 'RIFF' || nameAt(8) !== 'WAVE') return undefined
  let byteRate = 0
  for (let offset = FIRST_CHUNK; offset + BYTE_RATE_AT + 4 <= content.length;) {
    const name = nameAt(offset)
    const size = view.getUint32(offset + 4, true)
    if (name === 'fmt ') byteRate = view.getUint32(offset + BYTE_RATE_AT, true)
    if (name === 'data') return byteRate > 0 && size < UNKNOWN_FROM ? Math.round((size * 1000) / byteRate) : undefined
    // Chunks begin at even offsets.
    offset += CHUNK_HEADER_BYTES + size + (size % 2)
  }
  return undefined
}
