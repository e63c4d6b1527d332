import { id3Tag } from '../../samples/id3-tag.ts'
import type { Speech } from './speak.ts'

/** The rate of ordinary English speech, in code points including spaces. */
const CHARACTERS_PER_SECOND = 15

/** Headers of mono Layer III frames of 128 kbit/s without padding, by sample rate. */
const HEADERS = {
  44_100: [0xff, 0xfb, 0x90, 0xc0],
  24_000: [0xff, 0xf3, 0xc4, 0xc0],
} as const

/**
 * "Speaks" a text: returns a decodable MP3 of silence at 128 kbit/s, as long as the text takes at 15 characters per second
 * divided by `speed`, rounded up to a whole frame. Its lyrics tag contains the text, which the simulated transcription
 * returns. The same input produces the same bytes.
 *
 * Source: ISO/IEC 11172-3 section 2.4.1 and ISO/IEC 13818-3: a frame whose side information is zero is silent.
 */
export function speakMp3({ text, speed, sampleRate, voice }: Speech): Buffer {
  const samples = sampleRate === 44_100 ? 1152 : 576
  const seconds = Array.from(text).length / CHARACTERS_PER_SECOND / speed
  const count = Math.max(1, Math.ceil((seconds * sampleRate) / samples))
  const frameBytes = (samples * 16_000) / sampleRate
  const bytes = Buffer.alloc(Math.floor(count * frameBytes))
  for (let index = 0; index < count; index += 1) {
    // A frame has a whole number of bytes; the padding bit lengthens some frames to make up for the fractions.
    const [start, end] = [Math.floor(index * frameBytes), Math.floor((index + 1) * frameBytes)]
    bytes.set(HEADERS[sampleRate], start)
    if (end - start > Math.floor(frameBytes)) bytes.writeUInt8((bytes[start + 2] ?? 0) | 0x02, start + 2)
  }
  return Buffer.concat([id3Tag({ title: 'Simulated speech', artist: voice, language: 'eng', lyrics: text }), bytes])
}
