import { hash } from 'node:crypto'

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue | undefined }

/**
 * Writes JSON with object keys in code-unit order and without spaces (the part of RFC 8785 that plain data needs), so
 * that equal values have equal text. `undefined` properties are left out. Throws `TypeError` on a number that JSON
 * cannot represent.
 */
export function canonicalJson(value: JsonValue): string {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`not a JSON number: ${value}`)
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  const members = value as { readonly [key: string]: JsonValue | undefined }
  let text = ''
  for (const key of Object.keys(members).sort()) {
    const member = members[key]
    if (member !== undefined) text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${canonicalJson(member)}`
  }
  return `{${text}}`
}

/** Returns the SHA-256 hash as 64 lower-case hexadecimal digits. */
export function sha256Hex(data: string | Uint8Array): string {
  return hash('sha256', data)
}
