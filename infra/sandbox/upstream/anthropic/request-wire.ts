import { z } from 'zod'

/** Source: platform.claude.com/docs/en/build-with-claude/prompt-caching */
const cache_control = z.strictObject({ type: z.literal('ephemeral'), ttl: z.enum(['5m', '1h']).optional() }).nullish()

const text = z.strictObject({
  type: z.literal('text'),
  cache_control,
  text: z.string().regex(/\S/, 'text content blocks must contain non-whitespace text'),
})

const id = z.string().regex(/^[A-Za-z0-9_-]+$/)
const object = z.record(z.string(), z.unknown())
const flag = z.boolean().optional()

const userBlock = z.discriminatedUnion('type', [
  text,
  z.strictObject({
    type: z.literal('image'),
    cache_control,
    source: z.strictObject({
      type: z.literal('base64'),
      media_type: z.enum(['image/jpeg', 'image/png', 'image/gif', 'image/webp']),
      data: z.base64().min(1),
    }),
  }),
  z.strictObject({
    type: z.literal('tool_result'),
    cache_control,
    tool_use_id: id,
    content: z.union([z.string(), z.array(text)]).optional(),
    is_error: flag,
  }),
])

const assistantBlock = z.discriminatedUnion('type', [
  text,
  z.strictObject({ type: z.literal('tool_use'), cache_control, id, name: z.string().min(1), input: object }),
])

const userBlocks = z
  .array(userBlock)
  .min(1)
  .refine((blocks) => {
    const results = blocks.filter(({ type }) => type === 'tool_result').length
    return blocks.slice(0, results).every(({ type }) => type === 'tool_result')
  }, 'tool_result blocks must come first')

const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.literal('user'), content: z.union([z.string().min(1), userBlocks]) }),
  z.strictObject({
    role: z.literal('assistant'),
    content: z.union([z.string().min(1), z.array(assistantBlock).min(1)]),
  }),
])

const UNSUPPORTED_KEYWORDS = 'minimum maximum minLength maxLength maxItems pattern oneOf multipleOf'.split(' ')

/** Objects must be closed and without bounds, as the vendor's page on structured outputs documents. */
function isSupported(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return true
  if (Array.isArray(schema)) return schema.every(isSupported)
  const { type, additionalProperties, properties, $defs, ...rest } = schema as Record<string, unknown>
  if (type === 'object' && additionalProperties !== false) return false
  if (Object.keys(rest).some((keyword) => UNSUPPORTED_KEYWORDS.includes(keyword))) return false
  return [properties, $defs, rest].flatMap((named) => Object.values(named ?? {})).every(isSupported)
}

const tool = z
  .strictObject({
    cache_control,
    name: z.string().regex(/^[A-Za-z0-9_-]{1,128}$/),
    description: z.string().optional(),
    input_schema: z.looseObject({ type: z.literal('object') }),
    strict: flag,
  })
  .refine(({ strict, input_schema: schema }) => strict !== true || isSupported(schema), 'unsupported strict schema')

/**
 * The request of `POST /v1/messages`, without unknown fields. What only some models support is in `limitExceededBy`.
 * Source: platform.claude.com/docs/en/api/messages
 */
export const requestWire = z
  .strictObject({
    model: z.string().min(1),
    cache_control,
    max_tokens: z.int().min(1),
    system: z.union([z.string(), z.array(text)]).optional(),
    messages: z.array(message).min(1),
    tools: z
      .array(tool)
      .refine((tools) => new Set(tools.map(({ name }) => name)).size === tools.length, 'Tool names must be unique.')
      .optional(),
    tool_choice: z
      .discriminatedUnion('type', [
        z.strictObject({ type: z.literal('none') }),
        z.strictObject({ type: z.enum(['auto', 'any']), disable_parallel_tool_use: flag }),
        z.strictObject({ type: z.literal('tool'), name: z.string(), disable_parallel_tool_use: flag }),
      ])
      .optional(),
    stop_sequences: z.array(z.string().regex(/\S/)).optional(),
    output_config: z
      .strictObject({
        effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).optional(),
        format: z
          .strictObject({ type: z.literal('json_schema'), schema: object.refine(isSupported, 'schema is unsupported') })
          .optional(),
      })
      .optional(),
    thinking: z
      .discriminatedUnion('type', [
        z.strictObject({ type: z.enum(['adaptive', 'disabled', 'between_tools']) }),
        z.strictObject({ type: z.literal('enabled'), budget_tokens: z.int().min(1) }),
      ])
      .optional(),
    metadata: z.strictObject({ user_id: z.string().nullish() }).optional(),
    service_tier: z.enum(['auto', 'standard_only']).optional(),
    temperature: z.number().min(0).max(1).optional(),
    top_p: z.number().min(0).max(1).optional(),
    top_k: z.int().min(0).optional(),
    stream: flag,
  })
  .refine(
    ({ tools, tool_choice: choice }) => choice === undefined || (tools ?? []).length > 0,
    'tool_choice needs tools',
  )
  .refine(({ temperature, top_p: topP }) => temperature === undefined || topP === undefined, 'temperature or top_p')

export type AnthropicRequest = z.infer<typeof requestWire>
