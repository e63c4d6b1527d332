import { serverEvent } from '../server-event.ts'
import { inCharacters, inTokens } from '../writing/count-tokens.ts'

type Block = Readonly<Record<string, unknown>> & { readonly type: string }

interface Message {
  readonly content: readonly Block[]
  readonly stop_reason: string
  readonly stop_sequence: string | null
  readonly usage: Readonly<Record<string, unknown>> | undefined
}

/**
 * Divides a message into the events of a stream. `message_start` has the input tokens, `message_delta` the cumulative output.
 * Source: platform.claude.com/docs/en/build-with-claude/streaming
 */
export function messageEvents(body: unknown): string[] {
  const { content, stop_reason, stop_sequence, usage, ...known } = body as Message
  const message = { ...known, content: [], stop_reason: null, stop_sequence: null }
  const started = usage && { ...usage, output_tokens: 1, output_tokens_details: null }
  const events: readonly Block[] = [
    { type: 'message_start', message: { ...message, usage: started } },
    { type: 'ping' },
    ...content.flatMap((block, index) => [
      { type: 'content_block_start', index, content_block: { ...block, ...EMPTY[block.type] } },
      ...deltasOf(block).map((delta) => ({ type: 'content_block_delta', index, delta })),
      { type: 'content_block_stop', index },
    ]),
    {
      type: 'message_delta',
      delta: { stop_reason, stop_sequence },
      usage: usage && { ...usage, service_tier: undefined },
    },
    { type: 'message_stop' },
  ]
  return events.map((event) => serverEvent(event, event.type))
}

/** What a block lacks when it starts. */
const EMPTY: Readonly<Record<string, object>> = {
  text: { text: '' },
  tool_use: { input: {} },
  thinking: { signature: '' },
}

function deltasOf({ type, text, input, signature }: Block): readonly object[] {
  if (type === 'text') return inTokens(String(text), 4).map((piece) => ({ type: 'text_delta', text: piece }))
  if (type === 'thinking') return [{ type: 'signature_delta', signature }]
  return ['', ...inCharacters(JSON.stringify(input))].map((piece) => ({
    type: 'input_json_delta',
    partial_json: piece,
  }))
}
