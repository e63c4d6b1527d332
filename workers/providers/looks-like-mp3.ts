import { frameLengthAt, layerAt } from '#mp3/mpeg-header.ts'

/**
 * Returns whether bytes start like an MP3: with an ID3v2 tag or a frame of layer III. A cheap check that keeps error
 * pages and other formats from passing as speech; every frame is checked when the audio is measured.
 */
export function looksLikeMp3(bytes: Uint8Array): boolean {
  if (bytes[0] === 0x49 && bytes[1] === 0x44 && bytes[2] === 0x33) return true
  return frameLengthAt(bytes, 0, bytes.byteLength) !== 0 && layerAt(bytes, 0) === 3
}
