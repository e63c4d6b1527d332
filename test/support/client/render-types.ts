/** The part of JSON Schema that the interface description uses. */
export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | JsonSchema
  readonly items?: JsonSchema
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
}

const HEADER = `// Generated from the service's OpenAPI document by npm run generate.
`

/**
 * Renders the schemas of an OpenAPI document as TypeScript types. What is the same as another one of them, or as the
 * items of its list, is named instead of repeated.
 */
export function renderTypes(schemas: Readonly<Record<string, JsonSchema>>): string {
  const types = Object.entries(schemas).map(([name, schema]) => {
    return `export type ${name} = ${renderType(withReferences(schema, namesOf(schemas, name)), '')}\n`
  })
  return [HEADER, ...types].join('\n')
}

/** Returns the names that can stand for a schema in the type of this name, by the schema. */
function namesOf(schemas: Readonly<Record<string, JsonSchema>>, own: string): ReadonlyMap<string, string> {
  const names = new Map<string, string>()
  for (const [name, { properties }] of Object.entries(schemas)) {
    if (name === own) break
    const items = properties?.['data']?.items
    if (items !== undefined) names.set(JSON.stringify(items), `${name}["data"][number]`)
  }
  for (const [name, schema] of Object.entries(schemas)) if (name !== own) names.set(JSON.stringify(schema), name)
  return names
}

function withReferences(schema: JsonSchema, names: ReadonlyMap<string, string>): JsonSchema {
  const replace = (part: JsonSchema): JsonSchema => {
    const name = part.properties && names.get(JSON.stringify(part))
    return name === undefined ? withReferences(part, names) : { $ref: name }
  }
  const { properties, items } = schema
  return {
    ...schema,
    ...(items && { items: replace(items) }),
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, part]) => [name, replace(part)])),
    }),
  }
}

function renderType(schema: JsonSchema, indent: string): string {
  if (schema.$ref !== undefined) return schema.$ref.split('/').at(-1) ?? 'unknown'
  if (schema.const !== undefined) return literal(schema.const)
  if (schema.enum !== undefined) return schema.enum.map(literal).join(' | ')
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) return union(choices.map((choice) => renderType(choice, indent)))
  const { type } = schema
  if (typeof type === 'object') return union(type.map((each) => renderType({ ...schema, type: each }, indent)))
  switch (type) {
    case 'string':
    case 'boolean':
    case 'null':
      return type
    case 'integer':
    case 'number':
      return 'number'
    case 'array':
      return `readonly (${renderType(schema.items ?? {}, indent)})[]`
    case 'object':
      return renderObject(schema, indent)
    default:
      return 'unknown'
  }
}

function renderObject({ properties = {}, required = [], additionalProperties }: JsonSchema, indent: string): string {
  const inner = `${indent}  `
  const members = Object.entries(properties).map(([name, schema]) => {
    const optional = required.includes(name) ? '' : '?'
    const type = renderType(schema, inner)
    const isAbsentAllowed = optional !== '' && type !== 'unknown'
    return `${inner}readonly ${JSON.stringify(name)}${optional}: ${type}${isAbsentAllowed ? ' | undefined' : ''}\n`
  })
  const isOpen = typeof additionalProperties === 'object'
  if (members.length === 0 && isOpen) return `Readonly<Record<string, ${renderType(additionalProperties, indent)}>>`
  if (members.length === 0) return 'Readonly<Record<string, unknown>>'
  const rest = isOpen ? [`${inner}readonly [name: string]: unknown\n`] : []
  return `{\n${[...members, ...rest].join('')}${indent}}`
}

function union(types: readonly string[]): string {
  return [...new Set(types)].join(' | ')
}

function literal(value: unknown): string {
  return JSON.stringify(value)
}
