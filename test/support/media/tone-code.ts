/**
 * The code in which scripted voices speak: a word is a row of symbols, each a pair of tones, like the keys of a telephone.
 * It survives another encoding at 48 kbit/s, another sample rate, and cuts and joints between words.
 *
 * A word is a start mark with the speaker, its UTF-8 bytes, a checksum, and an end mark with the number of bytes.
 */
export interface CodedWord {
  /** An audio event if in parentheses: `(bell)`. */
  readonly text: string
  /** 0 to 15. */
  readonly speaker: number
}

/** One of 18 low and one of 16 high tones that sound together. */
export interface Symbol {
  readonly low: number
  readonly high: number
}

/** In a window of this length, tones of 80 Hz distance do not disturb each other, even if its edges fade. */
export const SYMBOL_MS = 25
export const LOW_TONES = Array.from({ length: 18 }, (_, index) => 400 + 80 * index)
export const HIGH_TONES = Array.from({ length: 16 }, (_, index) => 1920 + 80 * index)
export const START_MARK = 16
export const END_MARK = 17
/** Symbols around the bytes of a word. */
const FRAMING = 3
const MAXIMUM_BYTES = 100
export const MAXIMUM_SYMBOLS = MAXIMUM_BYTES + FRAMING

/** Returns the symbols of a word. */
export function symbolsOf({ text, speaker }: CodedWord): Symbol[] {
  const bytes = new TextEncoder().encode(text)
  if (bytes.length === 0 || bytes.length > MAXIMUM_BYTES) throw new RangeError(`a word has 1 to ${MAXIMUM_BYTES} bytes`)
  if (!(speaker >= 0 && speaker <= 15)) throw new RangeError('there are 16 speakers')
  const data = [...bytes, checksum(speaker, bytes)].map((byte) => ({ low: byte >> 4, high: byte & 15 }))
  return [{ low: START_MARK, high: speaker }, ...data, { low: END_MARK, high: bytes.length & 15 }]
}

/** Returns the word of these symbols, from start to end mark; undefined if they are damaged. */
export function wordOf(symbols: readonly Symbol[]): CodedWord | undefined {
  const [start, ...rest] = symbols
  const end = rest.pop()
  const data = Uint8Array.from(rest, ({ low, high }) => (low << 4) | high)
  const bytes = data.subarray(0, -1)
  if (start?.low !== START_MARK || end?.low !== END_MARK || bytes.length === 0) return undefined
  if (end.high !== (bytes.length & 15) || data.at(-1) !== checksum(start.high, bytes)) return undefined
  return { text: new TextDecoder().decode(bytes), speaker: start.high }
}

/** Returns a checksum of 8 bits, with the polynomial x⁸ + x² + x + 1. */
function checksum(speaker: number, bytes: Uint8Array): number {
  let sum = 0
  for (const byte of [speaker, ...bytes]) {
    sum ^= byte
    for (let bit = 0; bit < 8; bit++) sum = ((sum << 1) ^ ((sum & 0x80) === 0 ? 0 : 0x07)) & 0xff
  }
  return sum
}
