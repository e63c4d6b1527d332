type JsonSchema = { [keyword: string]: unknown }

/** Keywords whose value is taken as it is. */
const plain: ReadonlySet<string> = new Set([
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

/** Annotations that constrain nothing. */
const dropped: ReadonlySet<string> = new Set(['$schema', '$comment', 'strict', 'examples'])

/**
 * Reduces a caller's JSON Schema to the keywords the vendor reads in `parametersJsonSchema` and `responseJsonSchema`, so
 * that an unknown one is no error. `const` becomes `enum`, `allOf` is merged, `definitions` become `$defs`, a list of `items`
 * becomes `prefixItems`; a constraint without counterpart (`pattern`, `maxLength`, …) is told in the description, where the
 * model still reads it. Returns undefined for a schema that says nothing.
 *
 * Source: ai.google.dev/api/generate-content, GenerationConfig.responseJsonSchema ("only the following properties are
 * supported"; beside `$ref` only names that begin with `$`).
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
    return { $ref: reference, ...(isObject(definitions) ? { $defs: reduceEach(definitions) } : {}) }
  }
  const reduced: JsonSchema = {}
  const told: string[] = []
  for (const [keyword, value] of Object.entries(schema)) {
    if (dropped.has(keyword) || keyword === 'description') continue
    const entry = plain.has(keyword) ? { [keyword]: value } : translate(keyword, value)
    if (entry === undefined) told.push(`${keyword}: ${JSON.stringify(value)}`)
    else Object.assign(reduced, entry)
  }
  const description = [schema['description'], told.length === 0 ? undefined : `{${told.join(', ')}}`]
  const text = description.filter((line) => typeof line === 'string').join('\n\n')
  return text === '' ? reduced : { ...reduced, description: text }
}

/** The vendor's form of one keyword, or undefined when it has none. */
function translate(keyword: string, value: unknown): JsonSchema | undefined {
  switch (keyword) {
    case 'properties':
      return isObject(value) ? { properties: reduceEach(value) } : undefined
    case '$defs':
    case 'definitions':
      return isObject(value) ? { $defs: reduceEach(value) } : undefined
    case 'items':
      if (Array.isArray(value)) return { prefixItems: reduceList(value) }
      return isObject(value) ? { items: reduce(value) } : undefined
    case 'prefixItems':
    case 'anyOf':
    case 'oneOf':
      return Array.isArray(value) ? { [keyword]: reduceList(value) } : undefined
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
 * Of several branches with the same property the last one is kept, which is the usual way to refine a base type; a branch
 * that is a reference wins over all others, because nothing may stand beside it.
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

function reduceEach(schemas: JsonSchema): JsonSchema {
  return Object.fromEntries(
    Object.entries(schemas).map(([name, value]) => [name, isObject(value) ? reduce(value) : {}]),
  )
}

function reduceList(schemas: readonly unknown[]): JsonSchema[] {
  return schemas.map((value) => (isObject(value) ? reduce(value) : {}))
}

function isObject(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isStringOrNumber(value: unknown): value is string | number {
  return typeof value === 'string' || typeof value === 'number'
}
