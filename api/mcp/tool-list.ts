import type { Tool } from '@modelcontextprotocol/server'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { JsonSchema } from '../schemas/json-schema.ts'
import { jsonSchemaOf } from '../schemas/json-schema.ts'
import { jsonRequestSchema, resultSchemaOf } from '../schemas/operation-schemas.ts'
import { quoteSchema } from '../schemas/quotes.ts'
import { QUOTE_TOOL } from '../schemas/tool-operations.ts'
import { availableTools, QUOTE_TEXT } from './tool-texts.ts'

/** A repetition under the same key is the same call; what a call says goes to a provider elsewhere. */
const PAYING = { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: true } as const
const READING = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false } as const

/** Returns the tools that can be called at present, with the schemas of their operations. */
export function listTools(catalog: Catalog): readonly Tool[] {
  const paid = availableTools(catalog)
  const quote = {
    name: QUOTE_TOOL,
    ...QUOTE_TEXT,
    annotations: { title: QUOTE_TEXT.title, ...READING },
    inputSchema: asObjectSchema({
      properties: {
        tool: { type: 'string', enum: paid.map(({ name }) => name), description: 'The tool to be called.' },
        arguments: { type: 'object', description: 'The arguments that it is to be called with.' },
      },
      required: ['tool', 'arguments'],
      additionalProperties: false,
    }),
    outputSchema: outputSchemaOf(jsonSchemaOf(quoteSchema, 'output')),
  }
  const tools = paid.map(({ name, title, description, operation }) => ({
    name,
    title,
    description,
    annotations: { title, ...PAYING },
    inputSchema: asObjectSchema(jsonRequestSchema(operation, catalog)),
    outputSchema: outputSchemaOf(resultSchemaOf(operation)),
  }))
  return [quote, ...tools]
}

const PAYMENT_REQUIRED = {
  description: 'With isError: the x402 challenge to sign.',
  required: ['x402Version', 'accepts'],
  properties: { x402Version: { const: 2 }, accepts: { type: 'array' } },
}
const ERROR = {
  description: 'With isError: why the call failed, whether money moved (payment) and what to do next (retry).',
  required: ['type', 'error'],
  properties: { type: { const: 'error' }, error: { type: 'object' } },
}

/**
 * Returns the schema of a result, a challenge or an error: clients of the first version of the protocol's package compare
 * results with `isError` with it too.
 */
function outputSchemaOf(schema: JsonSchema) {
  const { $defs, ...result } = JSON.parse(JSON.stringify(schema, withKnownFormats)) as JsonSchema
  return asObjectSchema({ ...($defs === undefined ? {} : { $defs }), anyOf: [result, PAYMENT_REQUIRED, ERROR] })
}

/** Validators of clients warn about a format that they do not know. */
function withKnownFormats(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('format' in value) || value.format !== 'base64') return value
  const { format, ...others } = value
  return { ...others, contentEncoding: format }
}

/** The protocol of 2025 requires a root of type `object`. */
function asObjectSchema(schema: JsonSchema) {
  return { ...schema, type: 'object' as const }
}
