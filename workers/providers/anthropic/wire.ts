import { z } from 'zod'
import { writtenObjectSchema } from '#shared/operations/text/written-object.ts'
import { errorToken, storableText } from '../wire-fields.ts'

/** The id of a message or request; anything else counts as absent, so that free text never reaches a log. */
const id = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,128}$/)
  .nullish()
  .catch(undefined)

/** The members of an answer that stay as the vendor wrote them. */
export const WRITTEN: ReadonlySet<string> = new Set(['input'])

const tokens = z.int().nonnegative()

const usedBlocks = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: storableText }),
  z.object({ type: z.literal('tool_use'), name: storableText, input: writtenObjectSchema }),
  z.object({ type: z.literal('thinking'), signature: z.string().nullish() }),
])

/** `redacted_thinking` and future types. A malformed block of a used type does not match. */
const otherBlock = z
  .object({ type: z.string() })
  .refine(({ type }) => !['text', 'tool_use', 'thinking'].includes(type))
  .transform(() => ({ type: 'other' as const }))

/** A malformed count is no reason to withhold a result that the vendor bills. */
const cacheCount = tokens.nullish().catch(undefined)

const otherCounts = {
  cache_creation_input_tokens: cacheCount,
  cache_read_input_tokens: cacheCount,
  output_tokens_details: z.object({ thinking_tokens: tokens }).nullish().catch(undefined),
}

/**
 * The 200 answer of `POST /v1/messages`, without unused fields. `output_tokens` includes thinking; `input_tokens`
 * excludes tokens written to or read from the cache.
 *
 * Source: platform.claude.com/docs/en/api/messages (Message, Usage) and the vendor's TypeScript SDK 1.11,
 * resources/messages/messages.d.ts.
 */
export const messageWire = z.object({
  id,
  content: z.array(z.union([usedBlocks, otherBlock])),
  stop_reason: errorToken,
  usage: z.object({ input_tokens: tokens, output_tokens: tokens, ...otherCounts }).optional(),
})

export type MessageWire = z.infer<typeof messageWire>

const reportedUsage = z
  .object({ input_tokens: tokens.nullish(), output_tokens: tokens.nullish(), ...otherCounts })
  .nullish()

export type ReportedUsage = NonNullable<z.infer<typeof reportedUsage>>

const index = z.int().nonnegative()

/**
 * The used events of a streamed message, with the fields of all kinds of blocks and deltas. The counts of `usage` are
 * cumulative. `ping` and unknown events are ignored.
 *
 * Source: platform.claude.com/docs/en/build-with-claude/streaming and the vendor's TypeScript SDK 1.12,
 * RawMessageStreamEvent.
 */
export const messageEventWire = z.discriminatedUnion('type', [
  z.object({ type: z.literal('message_start'), message: z.object({ id, usage: reportedUsage }) }),
  z.object({
    type: z.literal('content_block_start'),
    index,
    content_block: z.object({
      type: z.string(),
      text: z.string().nullish(),
      name: z.string().nullish(),
      signature: z.string().nullish(),
    }),
  }),
  z.object({
    type: z.literal('content_block_delta'),
    index,
    delta: z.object({
      type: z.string(),
      text: z.string().optional(),
      partial_json: z.string().optional(),
      signature: z.string().optional(),
    }),
  }),
  z.object({ type: z.literal('content_block_stop'), index }),
  z.object({ type: z.literal('message_delta'), delta: z.object({ stop_reason: errorToken }), usage: reportedUsage }),
  z.object({ type: z.literal('message_stop') }),
  z.object({ type: z.literal('error'), error: z.object({ type: errorToken }) }),
])

export type MessageEvent = z.infer<typeof messageEventWire>

export const USED_EVENTS: ReadonlySet<unknown> = new Set(messageEventWire.options.map(({ shape }) => shape.type.value))

/**
 * The vendor's error body. `message` quotes the request, so it is matched against known account problems and
 * limits of models, and never kept. Source: platform.claude.com/docs/en/api/errors ("Error shapes")
 */
export const errorWire = z.object({
  error: z.object({ type: errorToken, message: z.string().optional().catch(undefined) }),
  request_id: id,
})
