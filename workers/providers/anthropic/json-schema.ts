import { JsonSource } from '#shared/json/json-source.ts'
import { isList, isMembers, type JsonMembers, JsonNumber, type JsonTree } from '#shared/json/json-tree.ts'
import { keywords, reduceEach, reduceKeywords, reduceList } from '../json-schema.ts'

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
export function outputSchema(schema: JsonSource): JsonSource | undefined {
  const given = schema.tree()
  return isMembers(given) && given.size > 0 ? JsonSource.fromTree(reduce(given)) : undefined
}

/** Makes a tool's schema an object schema; apart from that the vendor accepts JSON Schema 2020-12 unchanged. */
export function toolSchema(schema: JsonSource): JsonSource {
  const given = schema.tree()
  if (!isMembers(given)) return new JsonSource('{"type":"object","properties":{}}')
  if (given.get('type') === 'object' && !given.has('strict')) return schema
  const changed = new Map(given)
  changed.delete('strict')
  changed.set('type', 'object')
  return JsonSource.fromTree(changed)
}

function reduce(schema: JsonMembers): JsonMembers {
  const dialect = { plain: PLAIN_KEYWORDS, ignored: IGNORED_KEYWORDS, translate }
  const reduced = reduceKeywords(schema, dialect, (kept) =>
    schema.get('type') === 'object' || kept.has('properties')
      ? new Map([
          ...kept,
          ['type', 'object'],
          ['properties', kept.get('properties') ?? new Map()],
          ['additionalProperties', false],
        ])
      : kept,
  )
  const reference = reduced.get('$ref')
  // Only definitions are allowed next to a reference.
  return typeof reference === 'string' ? keywords({ $ref: reference, $defs: reduced.get('$defs') }) : reduced
}

/** Returns the vendor's form of one keyword, or undefined when there is none. */
function translate(keyword: string, value: JsonTree): JsonMembers | undefined {
  switch (keyword) {
    case 'properties':
    case '$defs':
    case 'definitions':
      return isMembers(value) ? keywords({ [keyword]: reduceEach(value, reduce) }) : undefined
    case 'items':
      return isMembers(value) ? keywords({ items: reduce(value) }) : undefined
    case 'anyOf':
    case 'oneOf':
      return isList(value) ? keywords({ anyOf: reduceList(value, reduce) }) : undefined
    case 'allOf':
      return isList(value) ? keywords({ allOf: reduceList(value, reduce) }) : undefined
    case 'enum':
      return isList(value) && value.every((member) => !isComplex(member)) ? keywords({ enum: value }) : undefined
    case 'const':
      return isComplex(value) ? undefined : keywords({ const: value })
    case 'format':
      return FORMATS.has(value) ? keywords({ format: value }) : undefined
    case 'minItems':
      return value instanceof JsonNumber && ['0', '1'].includes(value.text) ? keywords({ minItems: value }) : undefined
    case 'additionalProperties':
      // Objects are closed anyway; an open map has no counterpart and moves into the description.
      return value === false || value === true ? new Map() : undefined
    default:
      return undefined
  }
}

/** The vendor enumerates "strings, numbers, bools, or nulls only" (…/structured-outputs, "JSON Schema limitations"). */
function isComplex(value: JsonTree): boolean {
  return isMembers(value) || isList(value)
}
