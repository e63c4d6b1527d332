import { isObject } from '#shared/operations/text/tool-arguments.ts'
import { type JsonSchema, reduceEach, reduceKeywords, reduceList } from '../json-schema.ts'

const PLAIN_KEYWORDS: ReadonlySet<string> = new Set([
  '$id',
  '$ref',
  '$anchor',
  'type',
  'format',
  'title',
  'minItems',
  'maxItems',
  'minimum',
  'maximum',
  'required',
  'propertyOrdering',
])

const IGNORED_KEYWORDS: ReadonlySet<string> = new Set(['$schema', '$comment', 'strict', 'examples'])

/**
 * Reduces a caller's JSON Schema to the keywords that the vendor supports in `parametersJsonSchema` and
 * `responseJsonSchema`. `const` becomes `enum`, a `null` among the members of an enum a type beside it, `allOf` is merged, `definitions` become `$defs`, a list of `items`
 * becomes `prefixItems`; a constraint without a counterpart (`pattern`, `maxLength`, …) moves into the description,
 * where the model still reads it. Returns undefined for an empty schema.
 *
 * Source: ai.google.dev/api/generate-content, GenerationConfig.responseJsonSchema ("only the following properties are
 * supported"; next to `$ref` only names that start with `$`).
 */
export function geminiSchema(schema: unknown): JsonSchema | undefined {
  if (!isObject(schema)) return undefined
  const reduced = reduce(schema)
  return Object.keys(reduced).length === 0 ? undefined : reduced
}

function reduce(given: JsonSchema): JsonSchema {
  const schema = withoutNullMember(withoutAllOf(given))
  if (typeof schema['$ref'] === 'string') {
    const definitions = schema['$defs'] ?? schema['definitions']
    const reference = schema['$ref'].replace(/^#\/definitions\//, '#/$defs/')
    return { $ref: reference, ...(isObject(definitions) ? { $defs: reduceEach(definitions, reduce) } : {}) }
  }
  return reduceKeywords(schema, { plain: PLAIN_KEYWORDS, ignored: IGNORED_KEYWORDS, translate })
}

/** Returns the vendor's form of one keyword, or undefined when there is none. */
function translate(keyword: string, value: unknown): JsonSchema | undefined {
  switch (keyword) {
    case 'properties':
      return isObject(value) ? { properties: reduceEach(value, reduce) } : undefined
    case '$defs':
    case 'definitions':
      return isObject(value) ? { $defs: reduceEach(value, reduce) } : undefined
    case 'items':
      if (Array.isArray(value)) return { prefixItems: reduceList(value, reduce) }
      return isObject(value) ? { items: reduce(value) } : undefined
    case 'prefixItems':
    case 'anyOf':
    case 'oneOf':
      return Array.isArray(value) ? { [keyword]: reduceList(value, reduce) } : undefined
    case 'additionalProperties':
      if (typeof value === 'boolean') return { additionalProperties: value }
      return isObject(value) ? { additionalProperties: reduce(value) } : undefined
    case 'enum':
      // Members that the vendor does not take stay possible: then all of them move into the description.
      return Array.isArray(value) && value.length > 0 && value.every(isEnumerable) ? { enum: value } : undefined
    case 'const':
      if (value === null) return { type: 'null' }
      return isEnumerable(value) ? { enum: [value] } : undefined
    default:
      return undefined
  }
}

/**
 * Merges `allOf`. The last branch with a property wins, which is the usual way to refine a base type; a branch that is
 * a reference wins over all others, because no keyword is allowed next to it.
 */
function withoutAllOf({ allOf, ...rest }: JsonSchema): JsonSchema {
  if (!Array.isArray(allOf)) return allOf === undefined ? rest : { ...rest, allOf }
  const branches = [...allOf.filter(isObject).map(withoutAllOf), rest]
  const merged: JsonSchema = Object.assign({}, ...branches)
  const properties: JsonSchema = Object.assign({}, ...branches.map((branch) => branch['properties']))
  const required = [
    ...new Set(branches.flatMap((branch) => (Array.isArray(branch['required']) ? branch['required'] : []))),
  ]
  return {
    ...merged,
    ...(Object.keys(properties).length === 0 ? {} : { properties }),
    ...(required.length === 0 ? {} : { required }),
  }
}

/**
 * Splits `null` from the members of an enum, where the type allows it: the vendor enumerates strings and numbers only, and
 * has the type `null`.
 */
function withoutNullMember(schema: JsonSchema): JsonSchema {
  const { enum: members, type, ...rest } = schema
  if (!Array.isArray(members) || !members.includes(null) || 'anyOf' in rest || 'oneOf' in rest) return schema
  const others: unknown[] = members.filter((member) => member !== null)
  const types: unknown[] = Array.isArray(type) ? type : [type ?? typesOf(others)].flat()
  const allowsNull = type === undefined || types.includes('null')
  const otherTypes = types.filter((name) => name !== 'null')
  const [only] = otherTypes
  const typed = otherTypes.length === 0 ? {} : { type: otherTypes.length === 1 ? only : otherTypes }
  if (others.length === 0) return allowsNull ? { ...rest, type: 'null' } : schema
  if (!allowsNull) return { ...rest, ...typed, enum: others }
  return { ...rest, anyOf: [{ ...typed, enum: others }, { type: 'null' }] }
}

function typesOf(members: readonly unknown[]): string[] {
  return ['string', 'number', 'boolean'].filter((name) => members.some((member) => typeof member === name))
}

/** The vendor refuses an empty string among them with a 400 "enum[0]: cannot be empty" (FMXExpress/PasClaw#294). */
function isEnumerable(value: unknown): value is string | number {
  return (typeof value === 'string' && value !== '') || typeof value === 'number'
}
