import { JsonSource } from '#shared/json/json-source.ts'
import { isList, isMembers, type JsonMembers, JsonNumber, type JsonTree } from '#shared/json/json-tree.ts'
import { keywords, reduceEach, reduceKeywords, reduceList } from '../json-schema.ts'

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
export function geminiSchema(schema: JsonSource): JsonSource | undefined {
  const given = schema.tree()
  const reduced = isMembers(given) ? reduce(given) : new Map()
  return reduced.size === 0 ? undefined : JsonSource.fromTree(reduced)
}

function reduce(given: JsonMembers): JsonMembers {
  const schema = withoutNullMember(withoutAllOf(given))
  const reference = schema.get('$ref')
  if (typeof reference === 'string') {
    const definitions = schema.get('$defs') ?? schema.get('definitions')
    return keywords({
      $ref: reference.replace(/^#\/definitions\//, '#/$defs/'),
      $defs: isMembers(definitions) ? reduceEach(definitions, reduce) : undefined,
    })
  }
  return reduceKeywords(schema, { plain: PLAIN_KEYWORDS, ignored: IGNORED_KEYWORDS, translate })
}

/** Returns the vendor's form of one keyword, or undefined when there is none. */
function translate(keyword: string, value: JsonTree): JsonMembers | undefined {
  switch (keyword) {
    case 'properties':
      return isMembers(value) ? keywords({ properties: reduceEach(value, reduce) }) : undefined
    case '$defs':
    case 'definitions':
      return isMembers(value) ? keywords({ $defs: reduceEach(value, reduce) }) : undefined
    case 'items':
      if (isList(value)) return keywords({ prefixItems: reduceList(value, reduce) })
      return isMembers(value) ? keywords({ items: reduce(value) }) : undefined
    case 'prefixItems':
    case 'anyOf':
    case 'oneOf':
      return isList(value) ? keywords({ [keyword]: reduceList(value, reduce) }) : undefined
    case 'additionalProperties':
      if (typeof value === 'boolean') return keywords({ additionalProperties: value })
      return isMembers(value) ? keywords({ additionalProperties: reduce(value) }) : undefined
    case 'enum':
      // Members that the vendor does not take stay possible: then all of them move into the description.
      return isList(value) && value.length > 0 && value.every(isEnumerable) ? keywords({ enum: value }) : undefined
    case 'const':
      if (value === null) return keywords({ type: 'null' })
      return isEnumerable(value) ? keywords({ enum: [value] }) : undefined
    default:
      return undefined
  }
}

/**
 * Merges `allOf`. The last branch with a property wins, which is the usual way to refine a base type; a branch that is
 * a reference wins over all others, because no keyword is allowed next to it.
 */
function withoutAllOf(schema: JsonMembers): JsonMembers {
  const allOf = schema.get('allOf')
  if (!isList(allOf)) return schema
  const rest = new Map(schema)
  rest.delete('allOf')
  const branches = [...allOf.filter(isMembers).map(withoutAllOf), rest]
  const merged = new Map<string, JsonTree>(branches.flatMap((branch) => [...branch]))
  const properties = branches.flatMap((branch) => membersOf(branch.get('properties')))
  const required = branches.flatMap((branch) => listOf(branch.get('required')))
  if (properties.length > 0) merged.set('properties', new Map(properties))
  if (required.length > 0) merged.set('required', [...new Set(required)])
  return merged
}

function membersOf(tree: JsonTree | undefined): (readonly [string, JsonTree])[] {
  return isMembers(tree) ? [...tree] : []
}

function listOf(tree: JsonTree | undefined): readonly JsonTree[] {
  return isList(tree) ? tree : []
}

/**
 * Splits `null` from the members of an enum, where the type allows it: the vendor enumerates strings and numbers only, and
 * has the type `null`.
 */
function withoutNullMember(schema: JsonMembers): JsonMembers {
  const [members, type] = [schema.get('enum'), schema.get('type')]
  if (!isList(members) || !members.includes(null) || schema.has('anyOf') || schema.has('oneOf')) return schema
  const rest = [...schema].filter(([name]) => name !== 'enum' && name !== 'type')
  const others = members.filter((member) => member !== null)
  const types = isList(type) ? type : [type ?? typesOf(others)].flat()
  const allowsNull = type === undefined || types.includes('null')
  const otherTypes = types.filter((name) => name !== 'null')
  const typed = keywords({ type: otherTypes.length > 1 ? otherTypes : otherTypes[0] })
  if (others.length === 0) return allowsNull ? new Map([...rest, ['type', 'null']]) : schema
  if (!allowsNull) return new Map([...rest, ...typed, ['enum', others]])
  return new Map([...rest, ['anyOf', [new Map([...typed, ['enum', others]]), keywords({ type: 'null' })]]])
}

function typesOf(members: readonly JsonTree[]): string[] {
  const types = members.map((member) => (member instanceof JsonNumber ? 'number' : typeof member))
  return ['string', 'number', 'boolean'].filter((name) => types.includes(name as (typeof types)[number]))
}

/** The vendor refuses an empty string among them with a 400 "enum[0]: cannot be empty" (FMXExpress/PasClaw#294). */
function isEnumerable(value: JsonTree): boolean {
  return (typeof value === 'string' && value !== '') || value instanceof JsonNumber
}
