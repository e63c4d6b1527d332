import { id3Tag } from '../../samples/id3-tag.ts'

/** Rates and bitrates of the simulated voices: kbit/s, Hz. Mono, Layer III. */
export interface SpokenFormat {
  readonly sampleRate: 44_100 | 22_050 | 24_000
  readonly kilobitsPerSecond: 32 | 64 | 96 | 128 | 192
}

/** The rate of ordinary English speech, in code points including spaces. */
const CHARACTERS_PER_SECOND = 15

/** Version bits, rate index and bitrates of the frame header, by sample rate. */
const LAYOUTS = {
  44_100: { version: 0x18, rateIndex: 0, bitrates: [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192] },
  22_050: { version: 0x10, rateIndex: 0, bitrates: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128] },
  24_000: { version: 0x10, rateIndex: 1, bitrates: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128] },
} as const

/**
 * "Speaks" a text: returns a decodable MP3 of silence at a constant bitrate, as long as the text takes at 15 characters per
 * second divided by `speed`, rounded up to a whole frame. Its lyrics tag contains the text, which the simulated transcription
 * returns. The same input produces the same bytes.
 *
 * Source: ISO/IEC 11172-3 section 2.4.1 and ISO/IEC 13818-3: a frame whose side information is zero is silent.
 */
export function speakMp3(
  text: string,
  { speed, format, voice }: { speed: number; format: SpokenFormat; voice: string },
): Buffer {
  const tag = id3Tag({ title: 'Simulated speech', artist: voice, language: 'eng', lyrics: text })
  const seconds = Array.from(text).length / CHARACTERS_PER_SECOND / speed
  return Buffer.concat([tag, silence(seconds, format)])
}

function silence(seconds: number, { sampleRate, kilobitsPerSecond }: SpokenFormat): Buffer {
  const { version, rateIndex, bitrates } = LAYOUTS[sampleRate]
  const bitrateIndex = (bitrates as readonly number[]).indexOf(kilobitsPerSecond)
  if (bitrateIndex < 1) throw new Error(`No bitrate of ${sampleRate} Hz: ${kilobitsPerSecond}`)
  const samples = sampleRate >= 32_000 ? 1152 : 576
  const count = Math.max(1, Math.ceil((seconds * sampleRate) / samples))
  const frameBytes = (samples * kilobitsPerSecond * 125) / sampleRate
  const bytes = Buffer.alloc(Math.floor(count * frameBytes))
  for (let index = 0, offset = 0; index < count; index += 1) {
    // A frame has a whole number of bytes; the padding bit lengthens some frames to make up for the fractions.
    const end = Math.floor((index + 1) * frameBytes)
    const padding = end - offset - Math.floor(frameBytes)
    bytes.set([0xff, 0xe3 | version, (bitrateIndex << 4) | (rateIndex << 2) | (padding << 1), 0xc0], offset)
    offset = end
  }
  return bytes
}
