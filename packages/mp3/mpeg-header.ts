/** Layer of an MPEG audio frame. Only layer III is MP3; the others are recognized to name them in the error. */
export type Layer = 1 | 2 | 3

/** Length of a frame in free format: only the distance to the next frame shows it. */
export const FREE_FORMAT = -1

const HEADER_BYTES = 4
const INVALID = 0

// Kilobit/s by bitrate index 1 to 14, ISO/IEC 11172-3 and ISO/IEC 13818-3, section 2.4.2.3 each. MPEG 2.5 uses MPEG
// 2's.
const MPEG1_BITRATES: Record<Layer, readonly number[]> = {
  1: [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  2: [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  3: [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
}
const MPEG2_BITRATES: Record<Layer, readonly number[]> = {
  1: [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
  2: [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
  3: [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
}

const MPEG1 = 3

/**
 * Hz by `rateIndexAt`: version bits (0 is MPEG 2.5, 2 is MPEG 2, 3 is MPEG 1), then the two rate bits. Zero if
 * reserved.
 */
export const SAMPLE_RATES = Int32Array.from(
  [
    [11_025, 12_000, 8_000, 0],
    [0, 0, 0, 0],
    [22_050, 24_000, 16_000, 0],
    [44_100, 48_000, 32_000, 0],
  ].flat(),
)

/** Samples per channel of one layer III frame, by `rateIndexAt`. */
export const SAMPLES_PER_FRAME = Int32Array.from(SAMPLE_RATES, (rate, index) => {
  if (rate === 0) return 0
  return index >> 2 === MPEG1 ? 1152 : 576
})

/**
 * Frame lengths by version, layer, bitrate, rate and padding bits: bytes, `FREE_FORMAT`, or zero for an invalid header.
 */
const FRAME_BYTES = new Int32Array(2048)
for (let index = 0; index < FRAME_BYTES.length; index++) FRAME_BYTES[index] = frameBytesOfFields(index)

function frameBytesOfFields(index: number): number {
  const version = index >> 9
  const layerBits = (index >> 7) & 3
  const bitrateIndex = (index >> 3) & 15
  const rate = SAMPLE_RATES[(version << 2) | ((index >> 1) & 3)] ?? 0
  // Layer bits 00 are reserved in MPEG audio. ADTS (AAC) uses them.
  if (rate === 0 || layerBits === 0 || bitrateIndex === 15) return INVALID
  const layer = (4 - layerBits) as Layer
  if (bitrateIndex === 0) return layer === 3 ? FREE_FORMAT : INVALID
  const bitrates = version === MPEG1 ? MPEG1_BITRATES : MPEG2_BITRATES
  const bitsPerSecond = (bitrates[layer][bitrateIndex - 1] ?? 0) * 1000
  const padding = index & 1
  if (layer === 1) return (Math.floor((12 * bitsPerSecond) / rate) + padding) * 4
  const bytesPerBitOfRate = layer === 3 && version !== MPEG1 ? 72 : 144
  return Math.floor((bytesPerBitOfRate * bitsPerSecond) / rate) + padding
}

/** Returns the byte at an offset, which must be inside. */
export function byteAt(bytes: Uint8Array, offset: number): number {
  return bytes[offset] as number
}

/**
 * Returns the length in bytes of the MPEG audio frame (of any layer) with its header at `offset`, or `FREE_FORMAT`, or
 * zero when there is no valid header or fewer than four bytes before `end`. Ignores the emphasis bits, as decoders do.
 * Source: ISO/IEC 11172-3 section 2.4.1.3; the 2.5 extension is Fraunhofer's.
 */
export function frameLengthAt(bytes: Uint8Array, offset: number, end: number): number {
  if (offset + HEADER_BYTES > end || byteAt(bytes, offset) !== 0xff) return INVALID
  const second = byteAt(bytes, offset + 1)
  if ((second & 0xe0) !== 0xe0) return INVALID
  return FRAME_BYTES[((second & 0x1e) << 6) | (byteAt(bytes, offset + 2) >> 1)] as number
}

/** Returns the layer of a valid header. */
export function layerAt(bytes: Uint8Array, offset: number): Layer {
  return (4 - ((byteAt(bytes, offset + 1) >> 1) & 3)) as Layer
}

/** Returns the padding of a valid header, 0 or 1 slots (of one byte in layer III). */
export function paddingAt(bytes: Uint8Array, offset: number): number {
  return (byteAt(bytes, offset + 2) >> 1) & 1
}

/** Returns a valid header's index into `SAMPLE_RATES` and `SAMPLES_PER_FRAME`. */
export function rateIndexAt(bytes: Uint8Array, offset: number): number {
  return ((byteAt(bytes, offset + 1) & 0x18) >> 1) | ((byteAt(bytes, offset + 2) >> 2) & 3)
}

/** Returns whether the header has the single-channel mode. */
function isMonoAt(bytes: Uint8Array, offset: number): boolean {
  return byteAt(bytes, offset + 3) >> 6 === 3
}

/**
 * Returns a key of what is constant in a stream: version, layer, sample rate, and mono or stereo. Bitrate, padding, CRC
 * and the stereo mode may change from frame to frame.
 */
export function streamKeyAt(bytes: Uint8Array, offset: number): number {
  const channels = byteAt(bytes, offset + 3) >> 6 === 3 ? 1 : 0
  return ((byteAt(bytes, offset + 1) & 0x1e) << 8) | (byteAt(bytes, offset + 2) & 0x0c) | channels
}

/** Returns the length of the layer III side information, which follows the header and the optional two-byte CRC. */
export function sideInformationBytesAt(bytes: Uint8Array, offset: number): number {
  const version = (byteAt(bytes, offset + 1) >> 3) & 3
  if (version === MPEG1) return isMonoAt(bytes, offset) ? 17 : 32
  return isMonoAt(bytes, offset) ? 9 : 17
}

/** Returns whether a two-byte CRC follows the header. */
export function hasCrcAt(bytes: Uint8Array, offset: number): boolean {
  return (byteAt(bytes, offset + 1) & 1) === 0
}
