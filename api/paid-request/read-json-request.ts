import type { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import { invalidField, unknownField } from './invalid-field.ts'

/** Deep enough for any schema or conversation, shallow enough for every recursive walk over a body. */
const MAXIMUM_DEPTH = 64

const [QUOTE, BACKSLASH, OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x22, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d]

/** Parses a JSON body of raw bytes: UTF-8 only, not nested deeper than 64 levels. Throws `invalid_json`. */
export function parseJsonBody(bytes: Buffer): unknown {
  refuseDepth(bytes)
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (cause) {
    throw new AppError('invalid_json', { cause })
  }
}

/** Validates a parsed JSON body. Throws the 400s of the field table. */
export function readJsonRequest<Body>(body: unknown, schema: z.ZodType<Body>): Body {
  return parseFields(schema, asObject(body))
}

/** The body as an object. Throws `invalid_json` for anything else. */
export function asObject(body: unknown): Record<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new AppError('invalid_json', { message: 'The request body must be a JSON object.' })
  return body as Record<string, unknown>
}

/** Holds fields against a schema. Throws `invalid_field`, `missing_field` or `unknown_field`. */
export function parseFields<Body>(schema: z.ZodType<Body>, fields: Record<string, unknown>): Body {
  // JSON can name a property __proto__, which schemas pass over.
  if (Object.hasOwn(fields, '__proto__')) throw unknownField('__proto__')
  const parsed = schema.safeParse(fields)
  if (!parsed.success) throw invalidField(parsed.error, fields)
  return parsed.data
}

/** Counts brackets outside of strings before anything is parsed; strings are skipped as a whole. */
function refuseDepth(bytes: Buffer): void {
  let depth = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === QUOTE) at = endOfString(bytes, at)
    else if (byte === OPEN_BRACKET || byte === OPEN_BRACE) depth += 1
    else if (byte === CLOSE_BRACKET || byte === CLOSE_BRACE) depth -= 1
    if (depth > MAXIMUM_DEPTH)
      throw new AppError('invalid_json', { message: `The request body is nested deeper than ${MAXIMUM_DEPTH} levels.` })
  }
}

/** The index of the closing quote, or of the end for a string that has none. */
function endOfString(bytes: Buffer, start: number): number {
  for (let end = bytes.indexOf(QUOTE, start + 1); end !== -1; end = bytes.indexOf(QUOTE, end + 1)) {
    let backslashes = 0
    while (bytes[end - 1 - backslashes] === BACKSLASH) backslashes += 1
    if (backslashes % 2 === 0) return end
  }
  return bytes.length
}
