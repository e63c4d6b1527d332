import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { TextRequest } from '#shared/operations/text/text-request.ts'

type Messages = TextRequest['messages']

/**
 * Gives each call of a conversation an id that the vendor takes, and none twice. Callers and other vendors number calls anew
 * in each turn (`bash:0`). A result gets the id of the nearest call before it that has its id and no result.
 */
export function withUniqueCallIds(messages: Messages, accepted: RegExp): Messages {
  const acceptedId = (id: string) => (accepted.test(id) ? id : hashedId(id))
  const taken = new Set<string>()
  /** How often each id was used. */
  const uses = new Map<string, number>()
  /** The calls of the latest turn with an id, by the caller's id: those that wait for their result, and the last one. */
  const calls = new Map<string, { turn: number; waiting: string[]; last: string }>()
  const callId = (id: string, turn: number): string => {
    let own = acceptedId(id)
    for (let used = uses.get(id) ?? 0; taken.has(own); used += 1) {
      own = hashedId(`${id} ${used}`)
      uses.set(id, used + 1)
    }
    taken.add(own)
    const known = calls.get(id)
    if (known?.turn === turn) known.waiting.push(own)
    else calls.set(id, { turn, waiting: [own], last: own })
    return own
  }
  const resultId = (id: string): string => {
    const known = calls.get(id)
    if (known === undefined) return acceptedId(id)
    known.last = known.waiting.shift() ?? known.last
    return known.last
  }
  return messages.map(({ role, parts }, turn) => ({
    role,
    parts: parts.map((part) => {
      if (part.type === 'tool_call') return { ...part, id: callId(part.id, turn) }
      return part.type === 'tool_result' ? { ...part, tool_call_id: resultId(part.tool_call_id) } : part
    }),
  }))
}

function hashedId(text: string): string {
  return `call_${sha256Hex(text).slice(0, 24)}`
}
