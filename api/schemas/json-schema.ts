import { z } from 'zod'

/** A JSON Schema (2020-12) as plain JSON. */
export type JsonSchema = Record<string, unknown>

/**
 * A zod schema as JSON Schema without what only tools say to each other. `io` is `input` for what callers send, with
 * defaults optional, and `output` for what they get.
 */
export function jsonSchemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
  const { $schema: _, ...wire } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      // The bounds of a safe integer are the wire's, not the field's.
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
      // A format says the same in one word.
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern
      if (Number.isInteger(jsonSchema.const)) jsonSchema.type = 'integer'
    },
  })
  return wire
}

/**
 * Splits a schema from the definitions that it refers to, so that both can stand in one document: references to `$defs`
 * become references to `#/components/schemas/{name}.{definition}`.
 */
export function hoistDefinitions(name: string, schema: JsonSchema): Record<string, JsonSchema> {
  const text = JSON.stringify(schema).replaceAll('"#/$defs/', `"#/components/schemas/${name}.`)
  const { $defs: definitions = {}, ...rest } = JSON.parse(text) as JsonSchema & { $defs?: Record<string, JsonSchema> }
  const hoisted = Object.entries(definitions).map(([key, definition]) => [`${name}.${key}`, definition])
  return { [name]: rest, ...Object.fromEntries(hoisted) }
}

/** What an outline keeps of a schema: enough to form or read a value, small enough for a header. */
const OUTLINED_KEYWORDS = ['type', 'const', 'enum', 'minimum', 'maximum', 'minLength', 'maxLength', 'minItems'] as const

/**
 * A shallow copy of a schema: fields down to `depth`, their types and limits, and which are required. It accepts
 * everything that the whole schema accepts, since it only leaves rules out.
 */
export function outlineSchema(schema: JsonSchema, depth: number): JsonSchema {
  const outline: JsonSchema = Object.fromEntries(
    OUTLINED_KEYWORDS.flatMap((keyword) => (schema[keyword] === undefined ? [] : [[keyword, schema[keyword]]])),
  )
  if (depth === 0) return outline
  const properties = schema['properties'] as Record<string, JsonSchema> | undefined
  if (properties) {
    outline['properties'] = Object.fromEntries(
      Object.entries(properties).map(([name, property]) => [name, outlineSchema(property, depth - 1)]),
    )
    if (Array.isArray(schema['required'])) outline['required'] = schema['required']
  }
  const items = schema['items'] as JsonSchema | undefined
  if (items && typeof items === 'object') outline['items'] = outlineSchema(items, depth - 1)
  return outline
}
