/** Layer of an MPEG audio frame. Only layer III is MP3; the others are recognised to be refused by name. */
export type Layer = 1 | 2 | 3

/** Length of a frame whose header says "free format": it is known only from the distance to the next frame. */
export const freeFormat = -1

const headerBytes = 4
const invalid = 0

// Kilobit/s by bitrate index 1 to 14, ISO/IEC 11172-3 section 2.4.2.3 and ISO/IEC 13818-3 section 2.4.2.3. MPEG 2.5 uses MPEG 2's.
const bitratesOfMpeg1: Record<Layer, readonly number[]> = {
  1: [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  2: [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  3: [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
}
const bitratesOfMpeg2: Record<Layer, readonly number[]> = {
  1: [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
  2: [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
  3: [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
}

const mpeg1 = 3

/** Hz by `rateIndexAt`: version bits (0 is MPEG 2.5, 2 is MPEG 2, 3 is MPEG 1) then the two rate bits. Zero where reserved. */
export const sampleRates = Int32Array.from(
  [
    [11_025, 12_000, 8_000, 0],
    [0, 0, 0, 0],
    [22_050, 24_000, 16_000, 0],
    [44_100, 48_000, 32_000, 0],
  ].flat(),
)

/** Samples per channel of one layer III frame, by `rateIndexAt`. */
export const samplesPerFrame = Int32Array.from(sampleRates, (rate, index) => {
  if (rate === 0) return 0
  return index >> 2 === mpeg1 ? 1152 : 576
})

/** Frame bytes by version, layer, bitrate, rate and padding bits; `freeFormat`, or zero where the header is not one. */
const frameBytes = new Int32Array(2048)
for (let index = 0; index < frameBytes.length; index++) frameBytes[index] = frameBytesOfFields(index)

function frameBytesOfFields(index: number): number {
  const version = index >> 9
  const layerBits = (index >> 7) & 3
  const bitrateIndex = (index >> 3) & 15
  const rate = sampleRates[(version << 2) | ((index >> 1) & 3)] ?? 0
  // Layer bits 00 are reserved by MPEG audio and are what ADTS (AAC) puts there.
  if (rate === 0 || layerBits === 0 || bitrateIndex === 15) return invalid
  const layer = (4 - layerBits) as Layer
  if (bitrateIndex === 0) return layer === 3 ? freeFormat : invalid
  const bitrates = version === mpeg1 ? bitratesOfMpeg1 : bitratesOfMpeg2
  const bitsPerSecond = (bitrates[layer][bitrateIndex - 1] ?? 0) * 1000
  const padding = index & 1
  if (layer === 1) return (Math.floor((12 * bitsPerSecond) / rate) + padding) * 4
  const bytesPerBitOfRate = layer === 3 && version !== mpeg1 ? 72 : 144
  return Math.floor((bytesPerBitOfRate * bitsPerSecond) / rate) + padding
}

/** The byte at an offset that the caller knows to be inside. */
export function byteAt(bytes: Uint8Array, offset: number): number {
  return bytes[offset] as number
}

/**
 * Length in bytes of the MPEG audio frame (of any layer) whose header stands at `offset`: positive, or `freeFormat`, or
 * zero where there is no legal header or fewer than four bytes before `end`. The emphasis bits are not looked at, since
 * no decoder does. Source: ISO/IEC 11172-3 section 2.4.1.3; the 2.5 extension is Fraunhofer's.
 */
export function frameLengthAt(bytes: Uint8Array, offset: number, end: number): number {
  if (offset + headerBytes > end || byteAt(bytes, offset) !== 0xff) return invalid
  const second = byteAt(bytes, offset + 1)
  if ((second & 0xe0) !== 0xe0) return invalid
  return frameBytes[((second & 0x1e) << 6) | (byteAt(bytes, offset + 2) >> 1)] as number
}

/** Layer of a header that `frameLengthAt` found legal. */
export function layerAt(bytes: Uint8Array, offset: number): Layer {
  return (4 - ((byteAt(bytes, offset + 1) >> 1) & 3)) as Layer
}

/** Padding slot (one byte in layer III) of a legal header: 0 or 1. */
export function paddingAt(bytes: Uint8Array, offset: number): number {
  return (byteAt(bytes, offset + 2) >> 1) & 1
}

/** Index into `sampleRates` and `samplesPerFrame` of a legal header. */
export function rateIndexAt(bytes: Uint8Array, offset: number): number {
  return ((byteAt(bytes, offset + 1) & 0x18) >> 1) | ((byteAt(bytes, offset + 2) >> 2) & 3)
}

/** True for the single-channel mode. */
function isMonoAt(bytes: Uint8Array, offset: number): boolean {
  return byteAt(bytes, offset + 3) >> 6 === 3
}

/**
 * What must not change between the frames of one stream: version, layer, sample rate and whether there is one channel.
 * Bitrate, padding, CRC and the kind of stereo may change from frame to frame.
 */
export function streamKeyAt(bytes: Uint8Array, offset: number): number {
  const channels = byteAt(bytes, offset + 3) >> 6 === 3 ? 1 : 0
  return ((byteAt(bytes, offset + 1) & 0x1e) << 8) | (byteAt(bytes, offset + 2) & 0x0c) | channels
}

/** Bytes of the layer III side information, which follows the header and the optional two bytes of CRC. */
export function sideInformationBytesAt(bytes: Uint8Array, offset: number): number {
  const version = (byteAt(bytes, offset + 1) >> 3) & 3
  if (version === mpeg1) return isMonoAt(bytes, offset) ? 17 : 32
  return isMonoAt(bytes, offset) ? 9 : 17
}

/** True when two bytes of CRC follow the header. */
export function hasCrcAt(bytes: Uint8Array, offset: number): boolean {
  return (byteAt(bytes, offset + 1) & 1) === 0
}
