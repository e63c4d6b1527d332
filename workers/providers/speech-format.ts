import { frameLengthAt, layerAt } from '#mp3/mpeg-header.ts'

/** What speech can arrive in, as ffmpeg names it; Opus comes in Ogg. */
export type SpeechFormat = 'mp3' | 'wav' | 'flac' | 'ogg'

/**
 * Returns the format of speech by its first bytes, or `undefined`: error pages and other formats are none. An MP3 begins with
 * an ID3v2 tag or a frame of layer III. A cheap check; every frame is checked when the audio is measured.
 */
export function speechFormat(bytes: Uint8Array): SpeechFormat | undefined {
  const mark = (offset: number, length: number) => String.fromCharCode(...bytes.subarray(offset, offset + length))
  if (mark(0, 3) === 'ID3') return 'mp3'
  if (mark(0, 4) === 'RIFF' && mark(8, 4) === 'WAVE') return 'wav'
  if (mark(0, 4) === 'fLaC') return 'flac'
  if (mark(0, 4) === 'OggS') return 'ogg'
  return frameLengthAt(bytes, 0, bytes.byteLength) !== 0 && layerAt(bytes, 0) === 3 ? 'mp3' : undefined
}
