import { isObject } from '#shared/operations/text/tool-arguments.ts'

export type JsonSchema = { [keyword: string]: unknown }

/** What a vendor supports of JSON Schema. */
export interface SchemaDialect {
  /** Keywords whose value is kept as it is. */
  readonly plain: ReadonlySet<string>
  /** Annotations that constrain nothing. */
  readonly ignored: ReadonlySet<string>
  /** Returns the vendor's form of one keyword, or undefined when there is none. */
  readonly translate: (keyword: string, value: unknown) => JsonSchema | undefined
}

/**
 * Reduces a schema to a vendor's keywords. A constraint without a counterpart moves into the description, where the
 * model still reads it. `complete` adds what the vendor requires beyond the given keywords.
 */
export function reduceKeywords(
  schema: JsonSchema,
  { plain, ignored, translate }: SchemaDialect,
  complete: Reduce = (keywords) => keywords,
): JsonSchema {
  const reduced: JsonSchema = {}
  const untranslated: string[] = []
  for (const [keyword, value] of Object.entries(schema)) {
    if (ignored.has(keyword) || keyword === 'description') continue
    const entry = plain.has(keyword) ? { [keyword]: value } : translate(keyword, value)
    if (entry === undefined) untranslated.push(`${keyword}: ${JSON.stringify(value)}`)
    else Object.assign(reduced, entry)
  }
  const description = [schema['description'], untranslated.length === 0 ? undefined : `{${untranslated.join(', ')}}`]
  const text = description.filter((line) => typeof line === 'string').join('\n\n')
  return text === '' ? complete(reduced) : { ...complete(reduced), description: text }
}

/** Adds what a format is for to its schema, for vendors whose formats have no description of their own. */
export function described(schema: JsonSchema | undefined, description: string | undefined): JsonSchema | undefined {
  if (schema === undefined || description === undefined) return schema
  const own = typeof schema['description'] === 'string' ? [schema['description']] : []
  return { ...schema, description: [description, ...own].join('\n\n') }
}

type Reduce = (schema: JsonSchema) => JsonSchema

export function reduceEach(schemas: JsonSchema, reduce: Reduce): JsonSchema {
  return Object.fromEntries(
    Object.entries(schemas).map(([name, value]) => [name, isObject(value) ? reduce(value) : {}]),
  )
}

export function reduceList(schemas: readonly unknown[], reduce: Reduce): JsonSchema[] {
  return schemas.map((value) => (isObject(value) ? reduce(value) : {}))
}
