import { z } from 'zod'
import { JsonSource } from '#shared/json/json-source.ts'
import { EFFORTS } from './effort.ts'

/**
 * The one internal form of a text call, whichever endpoint family it came from. Chat completions and messages are both
 * translated into it before the quote, and every text provider translates from it. It is JSON, stored and digested, in
 * which schemas stay as the caller wrote them.
 */

/** The members of a stored text request that are read back as `JsonSource`. */
export const WRITTEN_MEMBERS: ReadonlySet<string> = new Set(['parameters', 'schema'])

/** Asks a vendor whose callers place them to cache the prompt up to the end of this part; others ignore it. */
const cacheBreakpoint = z.literal(true).optional()

const textPart = z.strictObject({ type: z.literal('text'), text: z.string(), cache_breakpoint: cacheBreakpoint })

/** `url` images are fetched after payment, by the worker; `inline` ones came as a data URI or Base64 block. */
const imagePart = z.strictObject({
  type: z.literal('image'),
  source: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('inline'), media_type: z.string(), base64: z.string() }),
    z.strictObject({ kind: z.literal('url'), url: z.url() }),
  ]),
  cache_breakpoint: cacheBreakpoint,
})

/** A call that the model made earlier; `arguments_json` is the JSON text of an object. */
const toolCallPart = z.strictObject({
  type: z.literal('tool_call'),
  id: z.string(),
  name: z.string(),
  arguments_json: z.string(),
  cache_breakpoint: cacheBreakpoint,
})

const toolResultPart = z.strictObject({
  type: z.literal('tool_result'),
  tool_call_id: z.string(),
  /** The tool's name, where the conversation contains it; some vendors need it. */
  name: z.string().optional(),
  text: z.string(),
  is_error: z.boolean().optional(),
  cache_breakpoint: cacheBreakpoint,
})

const partSchema = z.discriminatedUnion('type', [textPart, imagePart, toolCallPart, toolResultPart])

/** JSON Schema, as the caller wrote it. */
const writtenSchema = z.instanceof(JsonSource)

const toolSchema = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  /** Of the arguments. */
  parameters: writtenSchema,
  /** Whether the arguments must follow the schema; `false` is absent. */
  strict: z.literal(true).optional(),
  cache_breakpoint: cacheBreakpoint,
})

const responseFormatSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({
    type: z.literal('json_schema'),
    name: z.string().optional(),
    /** What the format is for, which the model reads. */
    description: z.string().optional(),
    schema: writtenSchema,
    strict: z.literal(true).optional(),
  }),
])

export const textRequestSchema = z.strictObject({
  system: z.string().optional(),
  /** Ends of the parts of `system` that are cache breakpoints, in UTF-16 code units, ascending. */
  system_breakpoints: z.array(z.int().min(1)).optional(),
  messages: z.array(z.strictObject({ role: z.enum(['user', 'assistant']), parts: z.array(partSchema) })).min(1),
  /** A hard limit on the model's whole output, hidden thinking included. */
  max_output_tokens: z.int().min(1),
  tools: z.array(toolSchema).optional(),
  tool_choice: z.union([z.enum(['auto', 'none', 'required']), z.strictObject({ name: z.string() })]).optional(),
  /** `false`: the answer has at most one call. */
  parallel_tool_calls: z.literal(false).optional(),
  response_format: responseFormatSchema.optional(),
  /** How hard to think, within what the deployment allows; absent: as the output limit suggests. */
  reasoning_effort: z.enum(EFFORTS).optional(),
  /** `medium`, the default, is absent. */
  verbosity: z.enum(['low', 'high']).optional(),
  temperature: z.number().optional(),
  top_p: z.number().optional(),
  top_k: z.number().optional(),
  stop_sequences: z.array(z.string()).optional(),
  seed: z.int().optional(),
  presence_penalty: z.number().optional(),
  frequency_penalty: z.number().optional(),
})

/**
 * Measured by the provider. `output_tokens` includes hidden thinking; `thinking_tokens` is that part. Of `input_tokens`,
 * `cached_input_tokens` were read from the vendor's prompt cache and `cache_write_tokens` were written to it; absent
 * where there were none.
 */
export const textUsageSchema = z
  .strictObject({
    input_tokens: z.int().min(0),
    cached_input_tokens: z.int().min(1).optional(),
    cache_write_tokens: z.int().min(1).optional(),
    output_tokens: z.int().min(0),
    thinking_tokens: z.int().min(0).optional(),
  })
  .refine((usage) => uncachedInputTokens(usage) >= 0, 'cached and written tokens are parts of input_tokens')

/** Returns the input that the vendor's prompt cache had no part in. */
export function uncachedInputTokens(
  usage: Readonly<Record<'input_tokens', number>> &
    Readonly<Partial<Record<'cached_input_tokens' | 'cache_write_tokens', number | undefined>>>,
): number {
  return usage.input_tokens - (usage.cached_input_tokens ?? 0) - (usage.cache_write_tokens ?? 0)
}

export const textOutputSchema = z.strictObject({
  /**
   * Visible text; `null` when the model only called tools or refused. It is empty when a stop sequence or the output
   * limit ended the answer before its first character.
   */
  text: z.string().nullable(),
  refusal: z.string().nullable(),
  tool_calls: z.array(z.strictObject({ id: z.string(), name: z.string(), arguments_json: z.string() })),
  finish_reason: z.enum(['stop', 'length', 'tool_calls', 'content_filter']),
  /** The sequence of the request that ended the answer, where the vendor says so. */
  stop_sequence: z.string().optional(),
  usage: textUsageSchema,
  /** The vendor's opaque thought signatures, kept only for callers who ask for raw output. */
  thought_signatures: z.array(z.string()).optional(),
})

export type TextPart = z.infer<typeof partSchema>
export type TextTool = z.infer<typeof toolSchema>
export type TextRequest = z.infer<typeof textRequestSchema>
export type TextUsage = z.infer<typeof textUsageSchema>
export type TextOutput = z.infer<typeof textOutputSchema>
