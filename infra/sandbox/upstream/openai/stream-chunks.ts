import { inGroups, serverEvent } from '../server-event.ts'
import { tokenPieces } from '../writing/count-tokens.ts'

interface Completion {
  readonly id: string
  readonly created: number
  readonly model: string
  readonly choices: readonly {
    readonly finish_reason: string
    readonly message: {
      readonly content: string | null
      readonly refusal: string | null
      readonly tool_calls?: readonly {
        readonly id: string
        readonly function: { readonly name: string; readonly arguments: string }
      }[]
    }
  }[]
  readonly usage: object
}

/**
 * Divides a completion into the chunks of a stream, one for each token of text. The counts are in a chunk of their own, for
 * requests with `include_usage`. Source: developers.openai.com/api/reference, ChatCompletionChunk
 */
export function completionChunks(body: unknown, { reportsUsage }: { reportsUsage: boolean }): string[] {
  const { id, created, model, choices, usage } = body as Completion
  const known = { id, object: 'chat.completion.chunk', created, model, service_tier: 'default' }
  const chunk = (delta: object, finishReason: string | null = null) =>
    serverEvent({
      ...known,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }],
      ...(reportsUsage ? { usage: null } : {}),
    })
  return [
    ...choices.flatMap(({ message: { content, refusal, tool_calls: calls = [] }, finish_reason }) => [
      chunk({ role: 'assistant', content: content === null ? null : '', refusal: null }),
      ...tokenPieces(content ?? '').map((text) => chunk({ content: text })),
      ...tokenPieces(refusal ?? '').map((text) => chunk({ refusal: text })),
      ...calls.flatMap((call, index) => callChunks(call, index).map((delta) => chunk({ tool_calls: [delta] }))),
      chunk({}, finish_reason),
    ]),
    ...(reportsUsage ? [serverEvent({ ...known, choices: [], usage })] : []),
    'data: [DONE]\n\n',
  ]
}

function callChunks(
  {
    id,
    function: { name, arguments: json },
  }: NonNullable<Completion['choices'][number]['message']['tool_calls']>[number],
  index: number,
): object[] {
  return [
    { index, id, type: 'function', function: { name, arguments: '' } },
    ...inGroups(Array.from(json), 16).map((piece) => ({ index, function: { arguments: piece } })),
  ]
}
