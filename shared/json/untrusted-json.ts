import { JsonSource } from './json-source.ts'
import { checkJsonStructure } from './scan-json.ts'

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
