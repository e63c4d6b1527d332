import type { AnthropicRequest } from './request-wire.ts'

type Message = AnthropicRequest['messages'][number]
type Block = Exclude<Message['content'], string>[number]

/**
 * Returns the message of the 400 with which the vendor refuses these turns: a repeated id of a call, a result without its
 * call, a call without its result, or a last assistant turn that ends with whitespace.
 *
 * Source: the messages are the vendor's, as reported (anthropics/claude-code#20901, decocms/studio#1803,
 * anthropics/claude-code#1237, tailcallhq/forgecode#1872), read on 28 November 2026
 */
export function turnFault(messages: readonly Message[]): string | undefined {
  const used = new Set<string>()
  let open = new Set<string>()
  for (const [index, message] of messages.entries()) {
    const calls = new Set<string>()
    for (const [place, block] of blocksOf(message).entries()) {
      const path = `messages.${index}.content.${place}`
      if (block.type === 'tool_use') {
        if (used.has(block.id)) return `${path}: \`tool_use\` ids must be unique`
        used.add(block.id)
        calls.add(block.id)
      } else if (block.type === 'tool_result' && !open.delete(block.tool_use_id)) {
        return `${path}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${block.tool_use_id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`
      }
    }
    if (open.size > 0) return unanswered(index - 1, open)
    open = calls
  }
  if (open.size > 0) return unanswered(messages.length - 1, open)
  const last = messages.at(-1)
  return last?.role === 'assistant' && /\s$/.test(endOf(last))
    ? 'messages: final assistant content cannot end with trailing whitespace'
    : undefined
}

function unanswered(index: number, ids: ReadonlySet<string>): string {
  return `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${[...ids].join(', ')}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`
}

function blocksOf({ content }: Message): readonly Block[] {
  return typeof content === 'string' ? [] : content
}

function endOf({ content }: Message): string {
  if (typeof content === 'string') return content
  const last = content.at(-1)
  return last?.type === 'text' ? last.text : ''
}
