import { byteAt } from './mpeg-header.ts'

interface Signature {
  /** Phrase for the public message. */
  readonly found: string
  readonly matches: (bytes: Uint8Array, offset: number, end: number) => boolean
}

function hasBytes(bytes: Uint8Array, offset: number, expected: readonly number[], end: number): boolean {
  if (offset + expected.length > end) return false
  return expected.every((value, index) => byteAt(bytes, offset + index) === value)
}

function mark(text: string, further?: { at: number; text: string }): Signature['matches'] {
  const codes = Array.from(text, (letter) => letter.charCodeAt(0))
  const furtherCodes = Array.from(further?.text ?? '', (letter) => letter.charCodeAt(0))
  return (bytes, offset, end) =>
    hasBytes(bytes, offset, codes, end) && hasBytes(bytes, offset + (further?.at ?? 0), furtherCodes, end)
}

function bigEndian32(bytes: Uint8Array, offset: number): number {
  return ((byteAt(bytes, offset) << 24) >>> 0) + (byteAt(bytes, offset + 1) << 16) + (byteAt(bytes, offset + 2) << 8)
}

// A box size says nothing certain of a cut file, so it is held only against the absurd.
const largestBoxBytes = 2 ** 30
const isoBoxTypes = ['ftyp', 'moov', 'mdat', 'wide', 'skip', 'styp', 'moof']

function isIsoBaseMedia(bytes: Uint8Array, offset: number, end: number): boolean {
  if (offset + 16 > end || bigEndian32(bytes, offset) > largestBoxBytes) return false
  const type = String.fromCharCode(...bytes.subarray(offset + 4, offset + 8))
  return isoBoxTypes.includes(type)
}

/** Length of the ADTS frame at `offset`, or zero. Source: ISO/IEC 13818-7 section 6.2. */
function adtsFrameBytes(bytes: Uint8Array, offset: number, end: number): number {
  if (offset + 7 > end || byteAt(bytes, offset) !== 0xff || (byteAt(bytes, offset + 1) & 0xf6) !== 0xf0) return 0
  if (((byteAt(bytes, offset + 2) >> 2) & 15) > 12) return 0
  const high = (byteAt(bytes, offset + 3) & 3) << 11
  const length = high | (byteAt(bytes, offset + 4) << 3) | (byteAt(bytes, offset + 5) >> 5)
  return length >= 7 ? length : 0
}

/**
 * Whether AAC in ADTS begins at `offset`: three frames in a row, or two that end exactly where the file does. Its
 * twelve sync bits are also MPEG audio's, whose reserved layer bits tell the two apart.
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

const packetBytesOfTransportStream = 188

function isTransportStream(bytes: Uint8Array, offset: number, end: number): boolean {
  for (let packet = 0; packet < 4; packet++) {
    if (!hasBytes(bytes, offset + packet * packetBytesOfTransportStream, [0x47], end)) return false
  }
  return true
}

// Each takes at least 32 bits of agreement, so that a damaged MP3 is not mistaken for one of them.
const signatures: readonly Signature[] = [
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
 * Names the container or codec other than MPEG audio that begins at `offset`, as a phrase for a message ("a RIFF/WAVE
 * container"), or undefined. By signature and structure at this very place; nothing is searched for.
 */
export function foreignFormatAt(bytes: Uint8Array, offset: number, end: number): string | undefined {
  return signatures.find((signature) => signature.matches(bytes, offset, end))?.found
}
