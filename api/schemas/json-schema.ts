import { z } from 'zod'

/** A JSON Schema (2020-12) as plain JSON. */
export type JsonSchema = Record<string, unknown>

/**
 * Converts a Zod schema to JSON Schema, without keywords that mean nothing to readers. `io` is `input` for what callers
 * send, where fields with defaults are optional, and `output` for what they receive.
 */
export function jsonSchemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
  const { $schema: _, ...wire } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      // The bounds of a safe integer come from JSON, not from the field.
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
      // The format already implies the pattern.
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern
      if (Number.isInteger(jsonSchema.const)) jsonSchema.type = 'integer'
    },
  })
  return wire
}

/**
 * Separates a schema from its definitions, so that both can be components of one document: references to `$defs` become
 * references to `#/components/schemas/{name}.{definition}`.
 */
export function hoistDefinitions(name: string, schema: JsonSchema): Record<string, JsonSchema> {
  const text = JSON.stringify(schema).replaceAll('"#/$defs/', `"#/components/schemas/${name}.`)
  const { $defs: definitions = {}, ...rest } = JSON.parse(text) as JsonSchema & { $defs?: Record<string, JsonSchema> }
  const hoisted = Object.entries(definitions).map(([key, definition]) => [`${name}.${key}`, definition])
  return { [name]: rest, ...Object.fromEntries(hoisted) }
}

/** Keywords kept in an outline: enough to write or read a value, small enough for a header. */
const OUTLINED_KEYWORDS = ['type', 'const', 'enum', 'minimum', 'maximum', 'minLength', 'maxLength', 'minItems'] as const

/**
 * Returns a copy of a schema cut at `depth`: fields, their types and limits, and which of them are required. It accepts
 * everything that the whole schema accepts, since it only omits rules.
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
