import type { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import { keepSources } from '#shared/json/json-source.ts'
import { checkJsonStructure } from '#shared/json/scan-json.ts'
import { isObject } from '#shared/operations/text/tool-arguments.ts'
import { type FieldAdvice, invalidField, repeatedField, unknownField } from './field-errors.ts'

/**
 * What text requests only pass through: schemas of tools and answers, and the input of a tool's call. The names are the
 * same in a quote and in the arguments of an agent's tool; where else one occurs, nothing reads its value.
 */
const PASSED_THROUGH: ReadonlySet<string> = new Set(['parameters', 'input_schema', 'schema', 'input'])

/**
 * Parses the bytes of a JSON body, which must be UTF-8; what is only passed through stays as it was written. Throws
 * `invalid_json` and `duplicate_field`.
 */
export function parseJsonBody(bytes: Buffer): unknown {
  const structure = checkJsonStructure(bytes, { names: PASSED_THROUGH })
  if (structure.outcome === 'too_complex') throw new AppError('invalid_json', { message: structure.message })
  if (structure.outcome === 'repeated_key') throw repeatedField(structure.key)
  const value = parse(bytes)
  keepSources(value, bytes, structure.found)
  return value
}

/** Creating one takes longer than decoding a short body. */
const STRICT_UTF8 = new TextDecoder('utf-8', { fatal: true })

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(STRICT_UTF8.decode(bytes))
  } catch (cause) {
    throw new AppError('invalid_json', { cause })
  }
}

/** Validates a parsed JSON body. Throws the 400s of its fields. */
export function readJsonRequest<Body>(body: unknown, schema: z.ZodType<Body>): Body {
  return parseFields(schema, asObject(body))
}

/** Returns the body as an object. Throws `invalid_json` for anything else. */
export function asObject(body: unknown): Record<string, unknown> {
  if (!isObject(body)) throw new AppError('invalid_json', { message: 'The request body must be a JSON object.' })
  return body
}

/** Validates fields against a schema. Throws `invalid_field`, `missing_field` or `unknown_field`. */
export function parseFields<Body>(
  schema: z.ZodType<Body>,
  fields: Record<string, unknown>,
  advice?: FieldAdvice,
): Body {
  // JSON can contain a property __proto__, which schemas ignore.
  if (Object.hasOwn(fields, '__proto__')) throw unknownField('__proto__')
  const parsed = validate(schema, fields)
  if (!parsed.success) throw invalidField(parsed.error, fields, advice)
  return parsed.data
}

/** Validates a value. Zod collects every issue, and a body with a hundred thousand of them overflows its stack. */
function validate<Body>(schema: z.ZodType<Body>, fields: Record<string, unknown>) {
  try {
    return schema.safeParse(fields)
  } catch (cause) {
    if (cause instanceof RangeError)
      throw new AppError('invalid_json', { message: 'The request has too many invalid fields.', cause })
    throw cause
  }
}
