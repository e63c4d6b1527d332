import { isObject } from '#shared/operations/text/tool-arguments.ts'
import { type JsonSchema, reduceEach, reduceKeywords, reduceList } from '../json-schema.ts'

const PLAIN_KEYWORDS: ReadonlySet<string> = new Set(['$ref', 'type', 'title', 'required'])

const IGNORED_KEYWORDS: ReadonlySet<string> = new Set(['$schema', '$comment', '$id', 'strict', 'examples'])

const FORMATS: ReadonlySet<unknown> = new Set([
  'date-time',
  'time',
  'date',
  'duration',
  'email',
  'hostname',
  'uri',
  'ipv4',
  'ipv6',
  'uuid',
])

/**
 * Reduces a caller's JSON Schema to the keywords that `output_config.format` accepts: every object is closed, `oneOf`
 * becomes `anyOf`, and a constraint without a counterpart (`minimum`, `maxLength`, `pattern`, …) moves into the
 * description, where the model still reads it. The vendor's SDK does the same. Returns undefined for an empty schema.
 *
 * Source: platform.claude.com/docs/en/build-with-claude/structured-outputs ("JSON Schema limitations") and
 * lib/transform-json-schema of the vendor's TypeScript SDK 1.11.
 */
export function outputSchema(schema: unknown): JsonSchema | undefined {
  return isObject(schema) && Object.keys(schema).length > 0 ? reduce(schema) : undefined
}

/** Makes a tool's schema an object schema; apart from that the vendor accepts JSON Schema 2020-12 unchanged. */
export function toolSchema(schema: unknown): JsonSchema {
  if (!isObject(schema)) return { type: 'object', properties: {} }
  const { strict: _, ...rest } = schema
  return rest['type'] === 'object' ? rest : { ...rest, type: 'object' }
}

function reduce(schema: JsonSchema): JsonSchema {
  const dialect = { plain: PLAIN_KEYWORDS, ignored: IGNORED_KEYWORDS, translate }
  const reduced = reduceKeywords(schema, dialect, (keywords) =>
    schema['type'] === 'object' || keywords['properties'] !== undefined
      ? { ...keywords, type: 'object', properties: keywords['properties'] ?? {}, additionalProperties: false }
      : keywords,
  )
  // Only definitions are allowed next to a reference.
  if (typeof reduced['$ref'] === 'string') {
    return { $ref: reduced['$ref'], ...(reduced['$defs'] === undefined ? {} : { $defs: reduced['$defs'] }) }
  }
  return reduced
}

/** Returns the vendor's form of one keyword, or undefined when there is none. */
function translate(keyword: string, value: unknown): JsonSchema | undefined {
  switch (keyword) {
    case 'properties':
    case '$defs':
    case 'definitions':
      return isObject(value) ? { [keyword]: reduceEach(value, reduce) } : undefined
    case 'items':
      return isObject(value) ? { items: reduce(value) } : undefined
    case 'anyOf':
    case 'oneOf':
      return Array.isArray(value) ? { anyOf: reduceList(value, reduce) } : undefined
    case 'allOf':
      return Array.isArray(value) ? { allOf: reduceList(value, reduce) } : undefined
    case 'enum':
      return Array.isArray(value) && value.every((member) => !isComplex(member)) ? { enum: value } : undefined
    case 'const':
      return isComplex(value) ? undefined : { const: value }
    case 'format':
      return FORMATS.has(value) ? { format: value } : undefined
    case 'minItems':
      return value === 0 || value === 1 ? { minItems: value } : undefined
    case 'additionalProperties':
      // Objects are closed anyway; an open map has no counterpart and moves into the description.
      return value === false || value === true ? {} : undefined
    default:
      return undefined
  }
}

/** The vendor enumerates "strings, numbers, bools, or nulls only" (…/structured-outputs, "JSON Schema limitations"). */
function isComplex(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}
