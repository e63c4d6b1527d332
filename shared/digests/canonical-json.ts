import { hash } from 'node:crypto'
import { JsonSource } from '#shared/json/json-source.ts'

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | JsonSource
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue | undefined }

type JsonObject = Extract<JsonValue, { readonly [key: string]: JsonValue | undefined }>

interface Writing {
  readonly namesOf: (object: JsonObject) => string[]
  readonly textOf: (source: JsonSource) => string
}

/** Names in code-unit order, and sources in one spelling of their value. */
const CANONICAL: Writing = {
  namesOf: (object) => Object.keys(object).sort(),
  textOf: (source) =>
    source.plain === undefined ? source.canonicalText() : write(source.plain as JsonValue, CANONICAL),
}

/** The same, with what is only passed through as its author wrote it. */
const STORED: Writing = { ...CANONICAL, textOf: ({ text }) => text }

const AS_GIVEN: Writing = { namesOf: Object.keys, textOf: ({ text }) => text }

/**
 * Writes JSON with object keys in code-unit order and without spaces (the part of RFC 8785 that plain data needs), so
 * that equal values have equal text. `undefined` properties are left out. Throws `TypeError` on a number that JSON
 * cannot represent.
 */
export function canonicalJson(value: JsonValue): string {
  return write(value, CANONICAL)
}

/** Writes the text to store and to execute: canonical, but for what is only passed through. Throws as `canonicalJson`. */
export function storedJson(value: JsonValue): string {
  return write(value, STORED)
}

/** Writes plain data as `JSON.stringify` does, and what is only passed through as its author wrote it. */
export function jsonText(value: object): string {
  return write(value as JsonValue, AS_GIVEN)
}

function write(value: JsonValue, writing: Writing): string {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`not a JSON number: ${value}`)
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (value instanceof JsonSource) return writing.textOf(value)
  if (Array.isArray(value)) return `[${value.map((item: JsonValue) => write(item, writing)).join(',')}]`
  const members = value as JsonObject
  let text = ''
  for (const name of writing.namesOf(members)) {
    const member = members[name]
    if (member !== undefined) text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${write(member, writing)}`
  }
  return `{${text}}`
}

/** Returns the SHA-256 hash as 64 lower-case hexadecimal digits. */
export function sha256Hex(data: string | Uint8Array): string {
  return hash('sha256', data)
}
