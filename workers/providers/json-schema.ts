import { JsonSource } from '#shared/json/json-source.ts'
import { isMembers, type JsonMembers, type JsonTree, writeJsonTree } from '#shared/json/json-tree.ts'

/** What a vendor supports of JSON Schema. */
export interface SchemaDialect {
  /** Keywords whose value is kept as it is. */
  readonly plain: ReadonlySet<string>
  /** Annotations that constrain nothing. */
  readonly ignored: ReadonlySet<string>
  /** Returns the vendor's form of one keyword, as keywords, or undefined when there is none. */
  readonly translate: (keyword: string, value: JsonTree) => JsonMembers | undefined
}

/**
 * Reduces a schema to a vendor's keywords, in the order of the caller's. A constraint without a counterpart moves into the
 * description, where the model still reads it. `complete` adds what the vendor requires beyond the given keywords.
 */
export function reduceKeywords(
  schema: JsonMembers,
  { plain, ignored, translate }: SchemaDialect,
  complete: Reduce = (keywords) => keywords,
): JsonMembers {
  const reduced = new Map<string, JsonTree>()
  const untranslated: string[] = []
  for (const [keyword, value] of schema) {
    if (ignored.has(keyword) || keyword === 'description') continue
    const entry = plain.has(keyword) ? new Map([[keyword, value]]) : translate(keyword, value)
    if (entry === undefined) untranslated.push(`${keyword}: ${writeJsonTree(value)}`)
    for (const [name, member] of entry ?? []) reduced.set(name, member)
  }
  const description = [
    schema.get('description'),
    untranslated.length === 0 ? undefined : `{${untranslated.join(', ')}}`,
  ]
  const text = description.filter((line) => typeof line === 'string').join('\n\n')
  return text === '' ? complete(reduced) : new Map([...complete(reduced), ['description', text]])
}

/** Adds what a format is for to its schema, for vendors whose formats have no description of their own. */
export function described(schema: JsonSource | undefined, description: string | undefined): JsonSource | undefined {
  const tree = schema?.tree()
  if (description === undefined || !isMembers(tree)) return schema
  const own = tree.get('description')
  const texts = [description, own].filter((text) => typeof text === 'string')
  return JsonSource.fromTree(new Map([...tree, ['description', texts.join('\n\n')]]))
}

type Reduce = (schema: JsonMembers) => JsonMembers

export function reduceEach(schemas: JsonMembers, reduce: Reduce): JsonMembers {
  return new Map([...schemas].map(([name, value]) => [name, isMembers(value) ? reduce(value) : new Map()]))
}

export function reduceList(schemas: readonly JsonTree[], reduce: Reduce): JsonMembers[] {
  return schemas.map((value) => (isMembers(value) ? reduce(value) : new Map()))
}

/** Returns keywords of which absent ones are left out. */
export function keywords(given: Readonly<Record<string, JsonTree | undefined>>): JsonMembers {
  return new Map(
    Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])),
  )
}
