import { createHash } from 'node:crypto'

/** The modes of LAME's `-m`; `forced` is joint stereo with mid/side coding in every frame. */
export type StereoMode = 'stereo' | 'joint' | 'forced' | 'dual' | 'mono'

export const STEREO_MODES: readonly StereoMode[] = ['stereo', 'joint', 'forced', 'dual', 'mono']

/** Hz: MPEG 1, then 2, then 2.5. */
export const SAMPLE_RATES = [44_100, 48_000, 32_000, 22_050, 24_000, 16_000, 11_025, 12_000, 8_000] as const

/** Kilobit/s of layer III. */
export const MPEG1_BITRATES = [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320] as const
export const MPEG2_BITRATES = [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160] as const

export interface FrameOptions {
  /** Hz; 44,100 by default. */
  readonly sampleRate?: number
  /** Kilobit/s; 128 by default, 64 below 32 kHz. */
  readonly bitrate?: number
  readonly mode?: StereoMode
  readonly crc?: boolean
  /** Bytes of a frame without padding. When set, the frames are free format and `bitrate` is ignored. */
  readonly freeFormatBytes?: number
}

export interface Mp3Options extends FrameOptions {
  /** The file is this long, or up to one frame longer. */
  readonly durationMs: number
  /** Different seeds result in different bytes, equal options in equal bytes. */
  readonly seed?: string
}

const MODE_BITS: Record<StereoMode, number> = { stereo: 0x00, joint: 0x40, forced: 0x60, dual: 0x80, mono: 0xc0 }
interface Layout {
  readonly header: readonly [number, number, number, number]
  readonly sampleRate: number
  readonly samplesPerFrame: number
  /** Bytes of a frame without padding, and the fraction of a byte that padding compensates. */
  readonly baseBytes: number
  readonly remainder: number
  readonly sideInformationEnd: number
}

/** Returns the samples per channel in a layer III frame. */
export function samplesPerFrame(sampleRate: number): number {
  return sampleRate >= 32_000 ? 1152 : 576
}

function layoutOf(options: FrameOptions): Layout {
  const { sampleRate = 44_100, mode = 'stereo', crc = false, freeFormatBytes } = options
  const rateIndex = (SAMPLE_RATES as readonly number[]).indexOf(sampleRate)
  if (rateIndex < 0) throw new Error(`No MPEG sample rate: ${sampleRate}`)
  const isMpeg1 = rateIndex < 3
  const versionBits = [0x18, 0x10, 0x00][Math.floor(rateIndex / 3)] ?? 0
  const bitrate = options.bitrate ?? (isMpeg1 ? 128 : 64)
  const bitrates: readonly number[] = isMpeg1 ? MPEG1_BITRATES : MPEG2_BITRATES
  const bitrateIndex = freeFormatBytes === undefined ? bitrates.indexOf(bitrate) + 1 : 0
  if (freeFormatBytes === undefined && bitrateIndex === 0) throw new Error(`No bitrate of ${sampleRate} Hz: ${bitrate}`)
  const exactBytes = freeFormatBytes ?? ((isMpeg1 ? 144_000 : 72_000) * bitrate) / sampleRate
  const sideInformation = isMpeg1 ? (mode === 'mono' ? 17 : 32) : mode === 'mono' ? 9 : 17
  return {
    header: [0xff, 0xe2 | versionBits | (crc ? 0 : 1), (bitrateIndex << 4) | ((rateIndex % 3) << 2), MODE_BITS[mode]],
    sampleRate,
    samplesPerFrame: samplesPerFrame(sampleRate),
    baseBytes: Math.floor(exactBytes),
    remainder: exactBytes - Math.floor(exactBytes),
    sideInformationEnd: 4 + (crc ? 2 : 0) + sideInformation,
  }
}

/** Returns 32 bytes below 0x80, so that none looks like a frame sync. */
function digestOf(seed: string): Uint8Array {
  return Uint8Array.from(createHash('sha256').update(seed).digest(), (byte) => byte & 0x7f)
}

/**
 * Generates `count` frames of silence (all side information zero), padded as constant-bitrate encoders do. CRC bytes
 * are zero and therefore wrong, which decoders ignore. `seed` goes into the ancillary bytes of the first frames.
 */
export function generateFrames(count: number, options: FrameOptions = {}, seed?: string): Uint8Array {
  const layout = layoutOf(options)
  const total = Math.floor(count * (layout.baseBytes + layout.remainder) + 1e-6)
  const bytes = new Uint8Array(total)
  const digest = seed === undefined ? new Uint8Array() : digestOf(seed)
  let written = 0
  let offset = 0
  for (let index = 0; index < count; index++) {
    const end = Math.floor((index + 1) * (layout.baseBytes + layout.remainder) + 1e-6)
    const padding = end - offset - layout.baseBytes
    bytes[offset] = layout.header[0]
    bytes[offset + 1] = layout.header[1]
    bytes[offset + 2] = layout.header[2] | (padding << 1)
    bytes[offset + 3] = layout.header[3]
    const room = Math.max(0, end - offset - layout.sideInformationEnd)
    const seedBytes = digest.subarray(written, written + room)
    bytes.set(seedBytes, offset + layout.sideInformationEnd)
    written += seedBytes.length
    offset = end
  }
  return bytes
}

/**
 * Generates a valid MP3 of silence at a constant bitrate, without tags and Xing frame. Its exact duration is
 * `generatedDurationMs` of the same options. 25 MiB take about 10 ms.
 */
export function generateMp3(options: Mp3Options): Uint8Array {
  return generateFrames(frameCountOf(options), options, options.seed)
}

function frameCountOf(options: Mp3Options): number {
  const rate = options.sampleRate ?? 44_100
  return Math.ceil((options.durationMs * rate) / 1000 / samplesPerFrame(rate))
}

/** Returns the duration of `generateMp3(options)` in milliseconds, rounded up. */
export function generatedDurationMs(options: Mp3Options): number {
  return durationMsOfFrames(frameCountOf(options), options.sampleRate)
}

/** Returns the duration of `count` frames in milliseconds, rounded up. */
export function durationMsOfFrames(count: number, sampleRate = 44_100): number {
  return Number((BigInt(count * samplesPerFrame(sampleRate)) * 1000n + BigInt(sampleRate) - 1n) / BigInt(sampleRate))
}

/** Generates a Xing, Info or VBRI frame that claims `claimedFrames`, regardless of the file. */
export function generateInfoFrame(
  mark: 'Xing' | 'Info' | 'VBRI',
  claimedFrames: number,
  options: FrameOptions = {},
): Uint8Array {
  const frame = generateFrames(1, options)
  const view = new DataView(frame.buffer)
  const offset = mark === 'VBRI' ? 36 : layoutOf(options).sideInformationEnd
  frame.set(new TextEncoder().encode(mark), offset)
  if (mark === 'VBRI') {
    view.setUint16(offset + 4, 1)
    view.setUint32(offset + 10, 0xff_ff_ff)
    view.setUint32(offset + 14, claimedFrames)
  } else {
    view.setUint32(offset + 4, 3)
    view.setUint32(offset + 8, claimedFrames)
    view.setUint32(offset + 12, 0xff_ff_ff)
  }
  return frame
}

/** Joins byte strings. */
export function joinBytes(...parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts))
}
