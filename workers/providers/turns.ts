import type { TextPart, TextRequest } from '#shared/operations/text/text-request.ts'

type Messages = TextRequest['messages']

/** Neighboring messages of one role, which vendors read as one. */
export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly messages: readonly (readonly TextPart[])[]
}

export function turnsOf(messages: Messages): Turn[] {
  const turns: { role: Turn['role']; messages: TextPart[][] }[] = []
  for (const { role, parts } of messages) {
    const last = turns.at(-1)
    if (last?.role === role) last.messages.push(parts)
    else turns.push({ role, messages: [parts] })
  }
  return turns
}

/**
 * Turns each call without a result in the turn after it, and each result without a call in the turn before it, into text,
 * as which the model still reads them: agents cut the beginning off a long history, or stop before a tool has answered, and
 * every vendor refuses what is left. As they say it, read on 28 November 2026:
 * - Anthropic: "`tool_use` ids were found without `tool_result` blocks immediately after", "unexpected `tool_use_id` found
 *   in `tool_result` blocks" (anthropics/claude-code#1237, decocms/studio#1803);
 * - Gemini: "Please ensure that the number of function response parts is equal to the number of function call parts of the
 *   function call turn.", "[…] that function response turn comes immediately after a function call turn."
 *   (google-gemini/gemini-cli#17208, GoogleCloudPlatform/generative-ai#368);
 * - OpenAI: "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
 *   "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'." (itmisx/deepx-code#94).
 *
 * Gemini alone refuses a conversation that begins with calls as well (`beginsWithUser`): "Please ensure that function call
 * turn comes immediately after a user turn or after a function response turn." (google-gemini/gemini-cli#26486).
 */
export function withPairs(messages: Messages, { beginsWithUser = false } = {}): Messages {
  const unpaired = findUnpaired(messages, beginsWithUser)
  if (unpaired.size === 0) return messages
  return messages.map(({ role, parts }) => ({
    role,
    parts: parts.map((part) => (unpaired.has(part) ? asText(part) : part)),
  }))
}

function findUnpaired(messages: Messages, beginsWithUser: boolean): ReadonlySet<TextPart> {
  const unpaired = new Set<TextPart>()
  let open: Extract<TextPart, { type: 'tool_call' }>[] = []
  for (const [index, { role, messages: said }] of turnsOf(messages).entries()) {
    const parts = said.flat()
    const calls = parts.filter((part) => part.type === 'tool_call')
    for (const part of parts) {
      if (part.type !== 'tool_result') continue
      const call = role === 'user' ? open.findIndex(({ id }) => id === part.tool_call_id) : -1
      if (call === -1) unpaired.add(part)
      else open.splice(call, 1)
    }
    for (const call of open) unpaired.add(call)
    const mayCall = role === 'assistant' && !(beginsWithUser && index === 0)
    if (!mayCall) for (const call of calls) unpaired.add(call)
    open = mayCall ? calls : []
  }
  for (const call of open) unpaired.add(call)
  return unpaired
}

function asText(part: TextPart): TextPart {
  if (part.type === 'tool_call') return { type: 'text', text: `Call of ${part.name}: ${part.arguments_json}` }
  if (part.type !== 'tool_result') return part
  return {
    type: 'text',
    text: `${part.is_error === true ? 'Error' : 'Result'} of ${part.name ?? 'a tool'}: ${part.text}`,
  }
}
