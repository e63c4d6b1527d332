import { isInfoFrameAt, isSilentFrameAt } from '#mp3/info-frame.ts'
import { frameLengthAt, layerAt, rateIndexAt, SAMPLE_RATES, SAMPLES_PER_FRAME } from '#mp3/mpeg-header.ts'
import { EXCEEDS_FILE, tagBytesAt } from '#mp3/skip-tags.ts'

/**
 * Measures the audio in an MP3 by counting Layer III frames; undefined when there are none. An approximation that skips
 * unknown bytes: it only spreads simulated words, and no price depends on it. `hasSound` says whether any frame is other
 * than silence.
 */
export function measureMpeg(file: Uint8Array) {
  let offset = tagBytesAt(file, 0, file.length)
  if (offset === EXCEEDS_FILE) return undefined
  let durationSeconds = 0
  let hasSound = false
  let frames = 0
  while (offset + 4 <= file.length) {
    const length = frameLengthAt(file, offset, file.length)
    if (length <= 0 || layerAt(file, offset) !== 3) {
      offset += 1
      continue
    }
    const isWhole = offset + length <= file.length
    // The first frame may be an encoder's silent information frame.
    if (frames > 0 || !(isWhole && isInfoFrameAt(file, offset, length))) {
      const rate = rateIndexAt(file, offset)
      durationSeconds += (SAMPLES_PER_FRAME[rate] ?? 0) / (SAMPLE_RATES[rate] ?? 1)
      hasSound ||= isWhole && !isSilentFrameAt(file, offset)
    }
    frames += 1
    offset += length
  }
  return frames > 0 && durationSeconds > 0 ? { durationSeconds, hasSound } : undefined
}
