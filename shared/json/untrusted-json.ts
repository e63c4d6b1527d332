import { JsonSource } from './json-source.ts'

/** Deeper than any SDK's request; a parser's memory grows with every level. */
const MAXIMUM_DEPTH = 64
/** Commas and opening brackets; each value costs a parser many times its bytes. */
const MAXIMUM_STRUCTURE = 200_000

export type JsonStructure =
  | { outcome: 'sound' }
  | { outcome: 'too_complex'; message: string }
  | { outcome: 'repeated_key'; key: string }

const QUOTE = 0x22
const BACKSLASH = 0x5c

/**
 * Checks JSON text before it is parsed: nesting and size of the structure are bounded, and no object may repeat a key,
 * since parsers disagree on which value wins. Text that is not JSON may pass; parsing rejects it. Runs in linear time
 * and skips strings by searching for the next quote.
 */
export function checkJsonStructure(bytes: Buffer): JsonStructure {
  /** The keys of each open object, `null` for an array. */
  const open: (Set<string> | null)[] = []
  let structure = 0
  let expectsKey = false
  for (let index = 0; index < bytes.length; index++) {
    switch (bytes[index]) {
      case QUOTE: {
        const end = closingQuote(bytes, index)
        if (end < 0) return { outcome: 'sound' }
        const keys = open.at(-1)
        if (expectsKey && keys) {
          const key = readString(bytes.subarray(index, end + 1))
          if (keys.has(key)) return { outcome: 'repeated_key', key }
          keys.add(key)
        }
        expectsKey = false
        index = end
        break
      }
      case 0x7b: // {
      case 0x5b: // [
        expectsKey = bytes[index] === 0x7b
        open.push(expectsKey ? new Set() : null)
        structure++
        if (open.length > MAXIMUM_DEPTH)
          return { outcome: 'too_complex', message: `The JSON is nested deeper than ${MAXIMUM_DEPTH} levels.` }
        break
      case 0x7d: // }
      case 0x5d: // ]
        open.pop()
        expectsKey = false
        break
      case 0x2c: // ,
        expectsKey = open.at(-1) instanceof Set
        structure++
        break
      default:
        break
    }
    if (structure > MAXIMUM_STRUCTURE)
      return { outcome: 'too_complex', message: `The JSON contains more than ${MAXIMUM_STRUCTURE} values.` }
  }
  return { outcome: 'sound' }
}

function closingQuote(bytes: Buffer, opening: number): number {
  for (let end = bytes.indexOf(QUOTE, opening + 1); end >= 0; end = bytes.indexOf(QUOTE, end + 1)) {
    let first = end
    while (bytes[first - 1] === BACKSLASH) first--
    if ((end - first) % 2 === 0) return end
  }
  return -1
}

/** Decodes a key, so that two spellings of it are equal. */
function readString(quoted: Buffer): string {
  const text = quoted.toString('utf8')
  // Without an escape the text is its only spelling.
  if (!text.includes('\\')) return text.slice(1, -1)
  try {
    return String(JSON.parse(text))
  } catch {
    return text
  }
}

/** Parsed JSON of a stranger. */
export interface UntrustedJson {
  readonly value: unknown
  /** Whether all of its text can be stored unchanged. */
  readonly isStorable: boolean
}

/**
 * Parses only what every parser reads in the same way: UTF-8, of JSON without repeated keys, deep nesting or `__proto__`.
 * A payment that two parsers read differently would be two payments. Returns `null` for anything else.
 */
export function parseUntrustedJson(bytes: Buffer): UntrustedJson | null {
  if (checkJsonStructure(bytes).outcome !== 'sound') return null
  try {
    const text = utf8.decode(bytes)
    // A reviver makes parsing several times slower, and no other text can have the key.
    const value: unknown = MAY_HAVE_PROTOTYPE_KEY.test(text) ? JSON.parse(text, rejectPrototypeKey) : JSON.parse(text)
    return { value, isStorable: pathToUnstorable(value) === null }
  } catch {
    return null
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The key as it is, or an escape, which may spell a part of it. */
const MAY_HAVE_PROTOTYPE_KEY = /__proto__|\\u/

function rejectPrototypeKey(key: string, value: unknown): unknown {
  if (key === '__proto__') throw new SyntaxError('__proto__ is not a valid key')
  return value
}

/**
 * Returns the path to the first text in a JSON value that cannot be stored unchanged, or `null`: lone surrogates have no
 * UTF-8 form, and PostgreSQL cannot store U+0000. Property names count as text too.
 */
export function pathToUnstorable(value: unknown): PropertyKey[] | null {
  return pathTo(value, (leaf) => typeof leaf === 'string' && !isStorable(leaf))
}

/** Returns the path to the first number of which parsers make infinity, such as 1e400, or `null`. */
export function pathToInfinity(value: unknown): PropertyKey[] | null {
  return pathTo(value, (leaf) => typeof leaf === 'number' && !Number.isFinite(leaf))
}

/** What `JSON.stringify` writes for such text, and an exponent; a text that quotes an escape has it too. */
const MAY_HAVE_FAULT = /\\u(?:0000|d[89a-f])|\d[eE]/

function pathTo(value: unknown, isFault: (leaf: unknown) => boolean): PropertyKey[] | null {
  if (value instanceof JsonSource) return MAY_HAVE_FAULT.test(value.text) ? pathTo(value.toJSON(), isFault) : null
  if (typeof value !== 'object' || value === null) return isFault(value) ? [] : null
  for (const [key, member] of Object.entries(value)) {
    const path = isFault(key) ? [] : pathTo(member, isFault)
    if (path) return [Array.isArray(value) ? Number(key) : key, ...path]
  }
  return null
}

function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}
