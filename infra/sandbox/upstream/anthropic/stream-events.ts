import { inGroups, serverEvent } from '../server-event.ts'
import { tokenPieces } from '../writing/count-tokens.ts'

type Block = Readonly<Record<string, unknown>> & { readonly type: string }

interface Message {
  readonly content: readonly Block[]
  readonly stop_reason: string
  readonly stop_sequence: string | null
  readonly usage: Readonly<Record<string, unknown>>
}

/** Tokens of one delta. */
const TOKENS_PER_DELTA = 4

/**
 * Divides a message into the events of a stream. `message_start` has the input tokens, `message_delta` the cumulative output.
 * Source: platform.claude.com/docs/en/build-with-claude/streaming
 */
export function messageEvents(body: unknown, { reportsUsage }: { reportsUsage: boolean }): string[] {
  const message = body as Message
  const { service_tier: _, ...counts } = message.usage
  const started = {
    ...message,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: reportsUsage ? { ...message.usage, output_tokens: 1, output_tokens_details: null } : undefined,
  }
  const { stop_reason, stop_sequence } = message
  const events: readonly Block[] = [
    { type: 'message_start', message: started },
    { type: 'ping' },
    ...message.content.flatMap(blockEvents),
    { type: 'message_delta', delta: { stop_reason, stop_sequence }, ...(reportsUsage ? { usage: counts } : {}) },
    { type: 'message_stop' },
  ]
  return events.map((event) => serverEvent(event, event.type))
}

function blockEvents(block: Block, index: number): Block[] {
  const { start, deltas } = divided(block)
  return [
    { type: 'content_block_start', index, content_block: start },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]
}

function divided(block: Block): { readonly start: object; readonly deltas: readonly object[] } {
  switch (block.type) {
    case 'text': {
      const texts = inGroups(tokenPieces(String(block['text'])), TOKENS_PER_DELTA)
      return { start: { type: 'text', text: '' }, deltas: texts.map((text) => ({ type: 'text_delta', text })) }
    }
    case 'tool_use': {
      const parts = ['', ...inGroups(Array.from(JSON.stringify(block['input'])), 16)]
      return {
        start: { ...block, input: {} },
        deltas: parts.map((json) => ({ type: 'input_json_delta', partial_json: json })),
      }
    }
    case 'thinking':
      return {
        start: { type: 'thinking', thinking: '', signature: '' },
        deltas: [{ type: 'signature_delta', signature: block['signature'] }],
      }
    default:
      return { start: block, deltas: [] }
  }
}
