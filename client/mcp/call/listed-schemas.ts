import type { StandardSchemaWithJSON } from '@modelcontextprotocol/server'
import * as z from 'zod'

type Standard = StandardSchemaWithJSON['~standard']

/** Tools check their arguments and results themselves, so that each refusal has the form of their errors. */
export function listedInput(schema: z.ZodType): StandardSchemaWithJSON {
  return listed((schema['~standard'] as Standard).jsonSchema)
}

/**
 * Lists the result of a tool or the error in its place: clients of the first SDK compare an error with the schema as well, and
 * would drop one that does not match.
 */
export function listedOutput(schema: z.ZodType): StandardSchemaWithJSON {
  const { output } = (z.union([schema, ERROR_SCHEMA])['~standard'] as Standard).jsonSchema
  // The protocol of 2025 requires a root of type `object`.
  const asObject: typeof output = (options) => ({ ...output(options), type: 'object' })
  return listed({ input: asObject, output: asObject })
}

const ERROR_SCHEMA = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    advice: z.string(),
    money: z.enum(['none', 'unknown', 'charged']),
  }),
  notice: z.string().optional(),
})

function listed(jsonSchema: Standard['jsonSchema']): StandardSchemaWithJSON {
  return { '~standard': { version: 1, vendor: 'farebox', validate: (value) => ({ value }), jsonSchema } }
}
