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
 * `responseJsonSchema`. `const` becomes `enum`, `allOf` is merged, `definitions` become `$defs`, a list of `items`
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
  const schema = withoutAllOf(given)
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
    case 'enum': {
      const usable = Array.isArray(value) ? value.filter(isStringOrNumber) : []
      return usable.length === 0 ? undefined : { enum: usable }
    }
    case 'const':
      return isStringOrNumber(value) ? { enum: [value] } : undefined
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

function isStringOrNumber(value: unknown): value is string | number {
  return typeof value === 'string' || typeof value === 'number'
}
