import { z } from 'zod'
import { list, noteMended, optional, optionalArguments, optionalCount, optionalText, optionalWord } from '../lenient.ts'
import { errorToken, storableText } from '../wire-fields.ts'

/** The id of a message or request; anything else counts as absent, so that free text never reaches a log. */
const id = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,128}$/)
  .nullish()
  .catch(undefined)

/** The members of an answer that stay as the vendor wrote them. */
export const WRITTEN: ReadonlySet<string> = new Set(['input'])

const blockFields = z.object({
  type: optionalWord('content.type'),
  text: optionalText('content.text'),
  name: optionalText('content.name'),
  input: optionalArguments('content.input'),
  signature: optional('content.signature', storableText),
})

/** A block of an answer; `other` are `redacted_thinking`, future types, and calls without a name. */
const block = blockFields.transform(({ type, text, name = '', input = '', signature }) => {
  switch (type ?? typeByFields({ text, name, signature })) {
    case 'text':
      return { type: 'text' as const, text }
    case 'tool_use':
      if (name !== '') return { type: 'tool_use' as const, name, input }
      noteMended('content.name')
      return { type: 'other' as const }
    case 'thinking':
      return { type: 'thinking' as const, signature }
    default:
      return { type: 'other' as const }
  }
})

/** Returns the type of a block that has none by what it holds: only one of the types has each field. */
function typeByFields({ text, name, signature }: Partial<Record<'text' | 'name' | 'signature', string | undefined>>) {
  noteMended('content.type')
  if (text !== undefined) return 'text'
  if (name !== '') return 'tool_use'
  return signature === undefined ? 'other' : 'thinking'
}

/**
 * The stop reasons of the vendor's documentation.
 * Source: `@anthropic-ai/sdk` 1.12, resources/messages/messages.d.ts, StopReason (2026-11-28).
 */
export const STOP_REASONS: ReadonlySet<string> = new Set([
  'end_turn',
  'max_tokens',
  'stop_sequence',
  'tool_use',
  'pause_turn',
  'refusal',
  'model_context_window_exceeded',
])

const usage = optional(
  'usage',
  z.object({
    input_tokens: optionalCount('input_tokens'),
    output_tokens: optionalCount('output_tokens'),
    cache_creation_input_tokens: optionalCount('cache_creation_input_tokens'),
    cache_read_input_tokens: optionalCount('cache_read_input_tokens'),
    output_tokens_details: optional(
      'output_tokens_details',
      z.object({ thinking_tokens: optionalCount('thinking_tokens') }),
    ),
  }),
)

/**
 * The 200 answer of `POST /v1/messages`, without unused fields. `output_tokens` includes thinking; `input_tokens`
 * excludes tokens written to or read from the cache.
 *
 * Source: platform.claude.com/docs/en/api/messages (Message, Usage) and the vendor's TypeScript SDK 1.12,
 * resources/messages/messages.d.ts.
 */
export const messageWire = z.object({
  id,
  content: list('content', block),
  stop_reason: optionalWord('stop_reason', STOP_REASONS),
  stop_sequence: optional('stop_sequence', z.string()),
  usage,
})

export type MessageWire = z.infer<typeof messageWire>

export type ReportedUsage = NonNullable<z.infer<typeof usage>>

/** The position of a block; without it, an event is about the latest one, or begins the next. */
const index = optional('index', z.int().nonnegative())

/**
 * The used events of a streamed message, with the fields of all kinds of blocks and deltas. The counts of `usage` are
 * cumulative. `ping` and unknown events are ignored.
 *
 * Source: platform.claude.com/docs/en/build-with-claude/streaming and the vendor's TypeScript SDK 1.12,
 * RawMessageStreamEvent.
 */
export const messageEventWire = z.discriminatedUnion('type', [
  z.object({ type: z.literal('message_start'), message: optional('message', z.object({ id, usage })) }),
  z.object({
    type: z.literal('content_block_start'),
    index,
    content_block: optional('content_block', block),
  }),
  z.object({
    type: z.literal('content_block_delta'),
    index,
    delta: optional(
      'delta',
      z.object({
        text: optionalText('delta.text', z.string()),
        partial_json: optionalText('delta.partial_json', z.string()),
        signature: optional('delta.signature', storableText),
      }),
    ),
  }),
  z.object({ type: z.literal('content_block_stop'), index }),
  z.object({
    type: z.literal('message_delta'),
    delta: optional(
      'delta',
      z.object({
        stop_reason: optionalWord('stop_reason', STOP_REASONS),
        stop_sequence: optional('stop_sequence', z.string()),
      }),
    ),
    usage,
  }),
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
