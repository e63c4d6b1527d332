import { z } from 'zod'

/** Source: platform.claude.com/docs/en/build-with-claude/prompt-caching */
const cacheControl = z.strictObject({ type: z.literal('ephemeral'), ttl: z.enum(['5m', '1h']).optional() }).nullish()

const text = z.strictObject({
  cache_control: cacheControl,
  type: z.literal('text'),
  text: z.string().regex(/\S/, 'text content blocks must contain non-whitespace text'),
})

const id = z.string().regex(/^[A-Za-z0-9_-]+$/)

const userBlock = z.discriminatedUnion('type', [
  text,
  z.strictObject({
    type: z.literal('image'),
    cache_control: cacheControl,
    source: z.strictObject({
      type: z.literal('base64'),
      media_type: z.enum(['image/jpeg', 'image/png', 'image/gif', 'image/webp']),
      data: z.base64().min(1),
    }),
  }),
  z.strictObject({
    type: z.literal('tool_result'),
    cache_control: cacheControl,
    tool_use_id: id,
    content: z.union([z.string(), z.array(text)]).optional(),
    is_error: z.boolean().optional(),
  }),
])

const assistantBlock = z.discriminatedUnion('type', [
  text,
  z.strictObject({
    type: z.literal('tool_use'),
    cache_control: cacheControl,
    id,
    name: z.string().min(1),
    input: z.record(z.string(), z.unknown()),
  }),
])

const message = z.discriminatedUnion('role', [
  z.strictObject({
    role: z.literal('user'),
    content: z.union([
      z.string().min(1),
      z
        .array(userBlock)
        .min(1)
        .refine((blocks) => {
          const firstOther = blocks.findIndex(({ type }) => type !== 'tool_result')
          return firstOther < 0 || blocks.findLastIndex(({ type }) => type === 'tool_result') < firstOther
        }, 'tool_result blocks must come first'),
    ]),
  }),
  z.strictObject({
    role: z.literal('assistant'),
    content: z.union([z.string().min(1), z.array(assistantBlock).min(1)]),
  }),
])

/** Objects must be closed and without bounds, as the vendor's page on structured outputs documents. */
const outputSchema = z.record(z.string(), z.unknown()).refine(isSupported, 'output_config.format.schema is unsupported')

const UNSUPPORTED_KEYWORDS = [
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'maxItems',
  'pattern',
  'oneOf',
  'multipleOf',
]

function isSupported(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return true
  if (Array.isArray(schema)) return schema.every(isSupported)
  const { type, additionalProperties, properties, $defs, ...rest } = schema as Record<string, unknown>
  if (type === 'object' && additionalProperties !== false) return false
  if (Object.keys(rest).some((keyword) => UNSUPPORTED_KEYWORDS.includes(keyword))) return false
  return (
    [properties, $defs].flatMap((named) => Object.values(named ?? {})).every(isSupported) &&
    Object.values(rest).every(isSupported)
  )
}

function haveUniqueNames(tools: readonly { readonly name: string }[]): boolean {
  return new Set(tools.map(({ name }) => name)).size === tools.length
}

/**
 * The request of `POST /v1/messages`, without unknown fields. What only some models support is in `limitExceededBy`.
 * Source: platform.claude.com/docs/en/api/messages
 */
export const requestWire = z
  .strictObject({
    model: z.string().min(1),
    cache_control: cacheControl,
    max_tokens: z.int().min(1),
    system: z.union([z.string(), z.array(text)]).optional(),
    messages: z.array(message).min(1),
    tools: z
      .array(
        z
          .strictObject({
            cache_control: cacheControl,
            name: z.string().regex(/^[A-Za-z0-9_-]{1,128}$/),
            description: z.string().optional(),
            input_schema: z.looseObject({ type: z.literal('object') }),
            strict: z.boolean().optional(),
          })
          .refine(
            ({ strict, input_schema: schema }) => strict !== true || isSupported(schema),
            'unsupported strict schema',
          ),
      )
      .refine(haveUniqueNames, 'Tool names must be unique.')
      .optional(),
    tool_choice: z
      .discriminatedUnion('type', [
        z.strictObject({ type: z.literal('none') }),
        z.strictObject({ type: z.enum(['auto', 'any']), disable_parallel_tool_use: z.boolean().optional() }),
        z.strictObject({
          type: z.literal('tool'),
          name: z.string(),
          disable_parallel_tool_use: z.boolean().optional(),
        }),
      ])
      .optional(),
    stop_sequences: z.array(z.string().regex(/\S/)).optional(),
    output_config: z
      .strictObject({
        effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).optional(),
        format: z.strictObject({ type: z.literal('json_schema'), schema: outputSchema }).optional(),
      })
      .optional(),
    thinking: z
      .discriminatedUnion('type', [
        z.strictObject({ type: z.enum(['adaptive', 'disabled']) }),
        z.strictObject({ type: z.literal('enabled'), budget_tokens: z.int().min(1) }),
      ])
      .optional(),
    metadata: z.strictObject({ user_id: z.string().nullish() }).optional(),
    service_tier: z.enum(['auto', 'standard_only']).optional(),
    temperature: z.number().min(0).max(1).optional(),
    top_p: z.number().min(0).max(1).optional(),
    top_k: z.int().min(0).optional(),
    stream: z.boolean().optional(),
  })
  .refine(
    ({ tools, tool_choice: choice }) => choice === undefined || (tools ?? []).length > 0,
    'tool_choice needs tools',
  )
  .refine(({ temperature, top_p: topP }) => temperature === undefined || topP === undefined, 'temperature or top_p')

export type AnthropicRequest = z.infer<typeof requestWire>
