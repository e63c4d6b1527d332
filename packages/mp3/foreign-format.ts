import { byteAt } from './mpeg-header.ts'

interface Signature {
  /** The phrase for the public message. */
  readonly found: string
  readonly matches: (bytes: Uint8Array, offset: number, end: number) => boolean
}

function hasBytes(bytes: Uint8Array, offset: number, expected: readonly number[], end: number): boolean {
  if (offset + expected.length > end) return false
  return expected.every((value, index) => byteAt(bytes, offset + index) === value)
}

function mark(text: string, second?: { at: number; text: string }): Signature['matches'] {
  const codes = Array.from(text, (letter) => letter.charCodeAt(0))
  const secondCodes = Array.from(second?.text ?? '', (letter) => letter.charCodeAt(0))
  return (bytes, offset, end) =>
    hasBytes(bytes, offset, codes, end) && hasBytes(bytes, offset + (second?.at ?? 0), secondCodes, end)
}

function bigEndian32(bytes: Uint8Array, offset: number): number {
  return ((byteAt(bytes, offset) << 24) >>> 0) + (byteAt(bytes, offset + 1) << 16) + (byteAt(bytes, offset + 2) << 8)
}

// A truncated file may be shorter than its box sizes, so only absurd sizes are rejected.
const MAXIMUM_BOX_BYTES = 2 ** 30
const ISO_BOX_TYPES = ['ftyp', 'moov', 'mdat', 'wide', 'skip', 'styp', 'moof']

function isIsoBaseMedia(bytes: Uint8Array, offset: number, end: number): boolean {
  if (offset + 16 > end || bigEndian32(bytes, offset) > MAXIMUM_BOX_BYTES) return false
  const type = String.fromCharCode(...bytes.subarray(offset + 4, offset + 8))
  return ISO_BOX_TYPES.includes(type)
}

/** Returns the length of the ADTS frame at `offset`, or zero. Source: ISO/IEC 13818-7 section 6.2. */
function adtsFrameBytes(bytes: Uint8Array, offset: number, end: number): number {
  if (offset + 7 > end || byteAt(bytes, offset) !== 0xff || (byteAt(bytes, offset + 1) & 0xf6) !== 0xf0) return 0
  if (((byteAt(bytes, offset + 2) >> 2) & 15) > 12) return 0
  const high = (byteAt(bytes, offset + 3) & 3) << 11
  const length = high | (byteAt(bytes, offset + 4) << 3) | (byteAt(bytes, offset + 5) >> 5)
  return length >= 7 ? length : 0
}

/**
 * Returns whether AAC in ADTS begins at `offset`: three consecutive frames, or two that end exactly with the file. MPEG
 * audio has the same sync bits; its reserved layer bits distinguish the two.
 */
export function isAdtsAt(bytes: Uint8Array, offset: number, end: number): boolean {
  let position = offset
  for (let count = 0; count < 3; count++) {
    if (count > 1 && position === end) return true
    const length = adtsFrameBytes(bytes, position, end)
    if (length === 0) return false
    position += length
  }
  return position <= end
}

const TRANSPORT_PACKET_BYTES = 188

function isTransportStream(bytes: Uint8Array, offset: number, end: number): boolean {
  for (let packet = 0; packet < 4; packet++) {
    if (!hasBytes(bytes, offset + packet * TRANSPORT_PACKET_BYTES, [0x47], end)) return false
  }
  return true
}

// Each compares at least 32 bits, so a damaged MP3 is not mistaken for one of them.
const SIGNATURES: readonly Signature[] = [
  { found: 'a RIFF/WAVE container', matches: mark('RIFF', { at: 8, text: 'WAVE' }) },
  { found: 'an RF64/WAVE container', matches: mark('RF64', { at: 8, text: 'WAVE' }) },
  { found: 'a RIFF container', matches: mark('RIFF') },
  { found: 'an ISO base media (MP4, M4A, MOV) container', matches: isIsoBaseMedia },
  { found: 'an Ogg container', matches: mark('OggS\0') },
  { found: 'a FLAC stream', matches: mark('fLaC') },
  { found: 'a Matroska or WebM container', matches: mark('\x1a\x45\xdf\xa3') },
  { found: 'an AIFF container', matches: mark('FORM', { at: 8, text: 'AIF' }) },
  { found: 'an ASF (WMA) container', matches: mark('\x30\x26\xb2\x75\x8e\x66\xcf\x11') },
  { found: 'a Core Audio container', matches: mark('caff\0') },
  { found: 'AMR audio', matches: mark('#!AMR') },
  { found: 'ADIF AAC audio', matches: mark('ADIF') },
  { found: 'a Sun AU file', matches: mark('.snd') },
  { found: 'a MIDI file', matches: mark('MThd') },
  { found: 'Monkey’s Audio', matches: mark('MAC ') },
  { found: 'WavPack audio', matches: mark('wvpk') },
  { found: 'Musepack audio', matches: mark('MPCK') },
  { found: 'an MPEG program stream', matches: mark('\0\0\x01\xba') },
  { found: 'an FLV container', matches: mark('FLV\x01') },
  { found: 'an MPEG transport stream', matches: isTransportStream },
  { found: 'ADTS AAC audio', matches: isAdtsAt },
  { found: 'a PDF document', matches: mark('%PDF-') },
  { found: 'a ZIP archive', matches: mark('PK\x03\x04') },
  { found: 'a PNG image', matches: mark('\x89PNG\r\n') },
]

/**
 * Returns the name of the container or codec other than MPEG audio that begins at `offset`, as a phrase for a message
 * ("a RIFF/WAVE container"), or undefined. Checks signature and structure at `offset` only, without searching.
 */
export function foreignFormatAt(bytes: Uint8Array, offset: number, end: number): string | undefined {
  return SIGNATURES.find((signature) => signature.matches(bytes, offset, end))?.found
}
