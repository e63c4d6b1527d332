/** kbit/s by the bitrate index of a Layer III header: MPEG 1, then MPEG 2 and 2.5 (ISO/IEC 11172-3 and 13818-3). */
const MPEG1_BITRATES = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
const MPEG2_BITRATES = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]
const MPEG1_SAMPLE_RATES = [44_100, 48_000, 32_000]

export interface MeasuredMpeg {
  readonly durationSeconds: number
  /** Whether any frame is other than silence. */
  readonly hasSound: boolean
}

/**
 * Measures the audio in an MP3 by counting Layer III frames; undefined when there are none. An approximation that skips
 * unknown bytes: it only spreads simulated words, and no price depends on it.
 */
export function measureMpeg(file: Uint8Array): MeasuredMpeg | undefined {
  let offset = afterId3Tag(file)
  let durationSeconds = 0
  let hasSound = false
  let frames = 0
  while (offset + 4 <= file.length) {
    const frame = readFrame(file, offset)
    if (frame === undefined) {
      offset += 1
      continue
    }
    // The first frame may be an encoder's silent information frame.
    if (frames > 0 || !isInformationFrame(file, offset, frame.bytes)) {
      durationSeconds += frame.seconds
      hasSound ||= file.subarray(frame.sideInformation.start, frame.sideInformation.end).some((byte) => byte !== 0)
    }
    frames += 1
    offset += frame.bytes
  }
  return frames > 0 && durationSeconds > 0 ? { durationSeconds, hasSound } : undefined
}

interface Frame {
  readonly bytes: number
  readonly seconds: number
  /** All zero in a silent frame. */
  readonly sideInformation: { readonly start: number; readonly end: number }
}

function readFrame(file: Uint8Array, offset: number): Frame | undefined {
  const [first = 0, second = 0, third = 0, fourth = 0] = file.subarray(offset, offset + 4)
  if (first !== 0xff || (second & 0xe0) !== 0xe0) return undefined
  const version = (second >> 3) & 3
  const layer = (second >> 1) & 3
  if (version === 1 || layer !== 1) return undefined
  const isMpeg1 = version === 3
  const kilobitsPerSecond = (isMpeg1 ? MPEG1_BITRATES : MPEG2_BITRATES)[third >> 4]
  const baseRate = MPEG1_SAMPLE_RATES[(third >> 2) & 3]
  if (!kilobitsPerSecond || baseRate === undefined) return undefined
  const sampleRate = isMpeg1 ? baseRate : version === 2 ? baseRate / 2 : baseRate / 4
  const samples = isMpeg1 ? 1152 : 576
  const padding = (third >> 1) & 1
  const isMono = fourth >> 6 === 3
  const hasCrc = (second & 1) === 0
  const start = offset + (hasCrc ? 6 : 4)
  return {
    bytes: Math.floor((samples * kilobitsPerSecond * 125) / sampleRate) + padding,
    seconds: samples / sampleRate,
    sideInformation: { start, end: start + (isMpeg1 ? (isMono ? 17 : 32) : isMono ? 9 : 17) },
  }
}

function isInformationFrame(file: Uint8Array, offset: number, bytes: number): boolean {
  const head = Buffer.from(file.subarray(offset, offset + Math.min(bytes, 48))).toString('latin1')
  return head.includes('Xing') || head.includes('Info') || head.includes('VBRI')
}

function afterId3Tag(file: Uint8Array): number {
  if (file.length < 10 || Buffer.from(file.subarray(0, 3)).toString('latin1') !== 'ID3') return 0
  const [a = 0, b = 0, c = 0, d = 0] = file.subarray(6, 10)
  return 10 + ((a << 21) | (b << 14) | (c << 7) | d)
}
