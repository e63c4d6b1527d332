import type { TextPart, TextRequest } from '../text/text-request.ts'
import type { TextObstacle } from './text-obstacle.ts'

/** Neighboring messages of one role, which vendors read as one. */
export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly messages: readonly (readonly TextPart[])[]
}

export function turnsOf(messages: TextRequest['messages']): Turn[] {
  const turns: { role: Turn['role']; messages: TextPart[][] }[] = []
  for (const { role, parts } of messages) {
    const last = turns.at(-1)
    if (last?.role === role) last.messages.push(parts)
    else turns.push({ role, messages: [parts] })
  }
  return turns
}

/**
 * Returns the obstacle of a conversation in which calls and results of tools are no pairs: every vendor refuses a call
 * whose result is not in the next turn, and a result whose call is not in the one before. As they say it, read on
 * 28 November 2026:
 * - Anthropic: "`tool_use` ids were found without `tool_result` blocks immediately after", "unexpected `tool_use_id` found
 *   in `tool_result` blocks" (anthropics/claude-code#1237, decocms/studio#1803);
 * - Gemini: "Please ensure that the number of function response parts is equal to the number of function call parts of the
 *   function call turn.", "[…] that function response turn comes immediately after a function call turn."
 *   (google-gemini/gemini-cli#17208, GoogleCloudPlatform/generative-ai#368);
 * - OpenAI: "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
 *   "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'." (itmisx/deepx-code#94).
 *   Servers of open models mostly have templates that fail on it.
 */
export function pairingObstacle({ messages }: TextRequest): TextObstacle | undefined {
  let open: string[] = []
  for (const { role, messages: said } of turnsOf(messages)) {
    const parts = said.flat()
    for (const part of parts) {
      if (part.type === 'tool_call' && role === 'user') return obstacle(MISPLACED, part.id)
      if (part.type !== 'tool_result') continue
      const call = role === 'user' ? open.indexOf(part.tool_call_id) : -1
      if (call < 0) return obstacle(WITHOUT_CALL, part.tool_call_id)
      open.splice(call, 1)
    }
    if (open[0] !== undefined) return obstacle(WITHOUT_RESULT, open[0])
    open = parts.flatMap((part) => (part.type === 'tool_call' ? [part.id] : []))
  }
  return open[0] === undefined ? undefined : obstacle(WITHOUT_RESULT, open[0])
}

const MISPLACED = 'a call of a tool that is not in an assistant message'
const WITHOUT_CALL = 'a result of a tool whose call is not in the assistant’s turn before it'
const WITHOUT_RESULT = 'a call of a tool whose result is not in the turn after it'

function obstacle(what: string, id: string): TextObstacle {
  return { field: 'messages', what, given: id }
}

/**
 * Returns the obstacle of a conversation that begins with calls, which only Gemini refuses: "Please ensure that function
 * call turn comes immediately after a user turn or after a function response turn." (google-gemini/gemini-cli#26486, read on
 * 28 November 2026).
 */
export function firstTurnObstacle({ messages }: TextRequest): TextObstacle | undefined {
  const [first] = turnsOf(messages)
  const calls = first?.messages.flat().find((part) => part.type === 'tool_call')
  return first?.role === 'assistant' && calls !== undefined
    ? { field: 'messages', what: 'a conversation that begins with the assistant’s calls of tools' }
    : undefined
}
