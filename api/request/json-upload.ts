import { randomUUID } from 'node:crypto'
import { decodeCanonicalBase64 } from '#shared/operations/canonical-base64.ts'
import type { UploadField } from '#shared/operations/operation.ts'
import { parseJsonBody } from './json-body.ts'

const [QUOTE, COLON] = [0x22, 0x3a]
const WHITESPACE = [0x20, 0x09, 0x0a, 0x0d]

/** Takes the place of the encoded upload while the rest is parsed. No caller can know it. */
const PLACEHOLDER = randomUUID()

/**
 * Parses a JSON body whose upload is one long string of canonical Base64, without making text of it: the upload is
 * decoded from the bytes of the body, and only the rest is parsed. The field's value is a `Buffer` then, in the object
 * that `holderOf` returns: nothing else may get one, since code that walks JSON would walk each of its bytes. Returns
 * `null` for any other body, which `parseJsonBody` must judge.
 *
 * A placeholder that arrives as the value of the field was a whole string of the JSON text. Canonical Base64 in its place has
 * no quote, backslash or control character, so the original text is JSON of the same structure, with that value.
 */
export function parseJsonWithUpload(
  body: Buffer,
  field: Pick<UploadField, 'jsonField' | 'maximumBase64Length'>,
  holderOf: (parsed: unknown) => unknown,
): unknown {
  const encoded = findString(body, field.jsonField)
  const length = encoded ? encoded.end - encoded.start : 0
  // Otherwise it would save nothing, and parsing the rest twice would cost as much again.
  if (!encoded || length < body.length / 2 || length > field.maximumBase64Length) return null
  const rest = Buffer.concat([body.subarray(0, encoded.start), Buffer.from(PLACEHOLDER), body.subarray(encoded.end)])
  const parsed = parseOrNull(rest)
  const holder = holderOf(parsed)
  if (!isObject(holder) || holder[field.jsonField] !== PLACEHOLDER) return null
  const upload = decodeCanonicalBase64(body.subarray(encoded.start, encoded.end))
  if (!upload) return null
  holder[field.jsonField] = upload
  return parsed
}

/** Returns where the string after the first `"name":` begins and ends, if there is one. */
function findString(body: Buffer, name: string): { start: number; end: number } | null {
  const key = body.indexOf(`"${name}"`)
  if (key < 0) return null
  const colon = skipWhitespace(body, key + name.length + 2)
  const quote = skipWhitespace(body, colon + 1)
  if (body[colon] !== COLON || body[quote] !== QUOTE) return null
  const end = body.indexOf(QUOTE, quote + 1)
  return end < 0 ? null : { start: quote + 1, end }
}

function skipWhitespace(body: Buffer, from: number): number {
  let at = from
  while (WHITESPACE.includes(body[at] ?? 0)) at += 1
  return at
}

function parseOrNull(bytes: Buffer): unknown {
  try {
    return parseJsonBody(bytes)
  } catch {
    return null
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
