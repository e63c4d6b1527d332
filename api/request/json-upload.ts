import { randomUUID } from 'node:crypto'
import type { z } from 'zod'
import { shrinkAdvice } from '#shared/audio/conversion.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { decodeCanonicalBase64 } from '#shared/operations/canonical-base64.ts'
import type { UploadField } from '#shared/operations/operation.ts'
import { isObject } from '#shared/operations/text/tool-arguments.ts'
import { missingField } from './field-errors.ts'
import { asObject, parseFields, parseJsonBody } from './json-body.ts'

/** The validated fields of a request with its upload, from a form or from JSON. */
export interface UploadRequest<Body> {
  readonly body: Body
  readonly audio: Uint8Array
  /** The field that the upload was sent in; errors about the upload name it. */
  readonly uploadParam: string
}

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
  const split = splitBody(body, field, holderOf)
  if (!split) return null
  split.holder[field.jsonField] = split.upload
  return split.parsed
}

/** The text of a JSON body with a placeholder for its upload, and the upload, decoded. */
interface SplitJson {
  readonly rest: Buffer
  readonly upload: Buffer
}

/**
 * Takes the upload out of a JSON body as `parseJsonWithUpload` does, where it is a field of the body itself. `joinJsonUpload`
 * puts them together, in another thread.
 */
export function splitJsonUpload(
  body: Buffer,
  field: Pick<UploadField, 'jsonField' | 'maximumBase64Length'>,
): SplitJson | null {
  const split = splitBody(body, field, (parsed) => parsed)
  return split && { rest: split.rest, upload: split.upload }
}

/** Returns what `parseJsonWithUpload` returned for the body that was split. */
export function joinJsonUpload(
  rest: Uint8Array,
  { jsonField }: Pick<UploadField, 'jsonField'>,
  upload: Uint8Array,
): unknown {
  return { ...asObject(parseJsonBody(Buffer.from(rest.buffer, rest.byteOffset, rest.byteLength))), [jsonField]: upload }
}

interface ParsedSplit extends SplitJson {
  readonly parsed: unknown
  /** The object in `parsed` that has the placeholder. */
  readonly holder: Record<string, unknown>
}

function splitBody(
  body: Buffer,
  field: Pick<UploadField, 'jsonField' | 'maximumBase64Length'>,
  holderOf: (parsed: unknown) => unknown,
): ParsedSplit | null {
  const encoded = findString(body, field.jsonField)
  const length = encoded ? encoded.end - encoded.start : 0
  // Otherwise it would save nothing, and parsing the rest twice would cost as much again.
  if (!encoded || length < body.length / 2 || length > field.maximumBase64Length) return null
  const rest = Buffer.concat([body.subarray(0, encoded.start), Buffer.from(PLACEHOLDER), body.subarray(encoded.end)])
  const parsed = parseOrNull(rest)
  const holder = holderOf(parsed)
  if (!isObject(holder) || holder[field.jsonField] !== PLACEHOLDER) return null
  const upload = decodeCanonicalBase64(body.subarray(encoded.start, encoded.end))
  return upload && { rest, parsed, holder, upload }
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

/** The length of one byte with padding. */
const MINIMUM_BASE64_LENGTH = 4

/**
 * Reads the fields and the upload of a JSON body, whose upload `parseJsonWithUpload` may have decoded already. Throws the 400s of its
 * fields.
 */
export function readJsonUpload<Body>(
  given: unknown,
  upload: UploadField,
  bodySchema: z.ZodType<Body>,
): UploadRequest<Body> {
  const { [upload.jsonField]: encoded, ...fields } = asObject(given)
  const body = parseFields(bodySchema, fields, upload.advice)
  return { body, audio: decodeBase64(encoded, upload), uploadParam: upload.jsonField }
}

function decodeBase64(encoded: unknown, upload: UploadField): Uint8Array {
  const { jsonField, maximumBase64Length } = upload
  if (encoded === undefined) throw missingField(jsonField, 'the MP3 as Base64')
  if (encoded instanceof Uint8Array) return encoded
  if (typeof encoded !== 'string')
    throw new AppError('invalid_field', { param: jsonField, message: `${jsonField} must be a string.` })
  if (encoded.length > maximumBase64Length)
    throw new AppError('audio_too_large', {
      param: jsonField,
      message: `${jsonField} has ${encoded.length.toLocaleString('en')} characters; the limit is ${maximumBase64Length.toLocaleString('en')}. ${shrinkAdvice(upload)}`,
    })
  if (encoded.length < MINIMUM_BASE64_LENGTH)
    throw new AppError('invalid_base64', {
      param: jsonField,
      message: `${jsonField} must have at least ${MINIMUM_BASE64_LENGTH} characters of canonical RFC 4648 Base64.`,
    })
  const bytes = decodeCanonicalBase64(encoded)
  if (!bytes)
    throw new AppError('invalid_base64', { param: jsonField, message: `${jsonField} ${base64Fault(encoded)}` })
  return bytes
}

const BASE64_COMMAND = 'base64 -w0 < input.mp3'

/** What clients send instead of canonical Base64, with what to send. */
const BASE64_FAULTS: readonly (readonly [RegExp, string])[] = [
  [/^data:/i, 'begins with a data-URL prefix. Send only what follows its comma.'],
  [/\s/, `contains whitespace or line breaks. Send it as one line: ${BASE64_COMMAND}`],
  [/[-_]/, 'uses the URL-safe alphabet. Use the standard one, with + and /.'],
]

function base64Fault(encoded: string): string {
  const [, fault] = BASE64_FAULTS.find(([pattern]) => pattern.test(encoded)) ?? []
  if (fault !== undefined) return fault
  return encoded.length % 4 === 0
    ? `must be canonical RFC 4648 Base64 of the MP3. Encode it with: ${BASE64_COMMAND}`
    : 'must have a multiple of four characters. Pad it with =, and send all of it.'
}
