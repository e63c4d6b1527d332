import type { TextRequest } from '../text/text-request.ts'
import type { Obstacle } from './obstacle.ts'

export type TextObstacle = Obstacle<keyof TextRequest>

/** What a vendor documents about the names of functions. */
export interface NameRule {
  readonly pattern: RegExp
  /** Completes "a tool name …". */
  readonly rule: string
  /** Whether two tools of one name are refused. */
  readonly isUnique: boolean
}

/** Returns the first tool, or call in the history, whose name the vendor refuses. */
export function nameObstacle(
  { tools = [], messages }: TextRequest,
  { pattern, rule, isUnique }: NameRule,
): TextObstacle | undefined {
  const names = new Set<string>()
  for (const { name } of tools) {
    if (!pattern.test(name)) return { field: 'tools', what: `a tool name ${rule}`, given: name }
    if (isUnique && names.has(name)) return { field: 'tools', what: 'two tools of one name', given: name }
    names.add(name)
  }
  for (const { parts } of messages)
    for (const part of parts)
      if (part.type === 'tool_call' && !pattern.test(part.name))
        return { field: 'messages', what: `a call of a tool whose name is one ${rule}`, given: part.name }
  return undefined
}

export function stopsObstacle({ stop_sequences: stops = [] }: TextRequest, maximum: number): TextObstacle | undefined {
  return stops.length > maximum ? { field: 'stop_sequences', what: `more than ${maximum} stop sequences` } : undefined
}

export function toolsObstacle({ tools = [] }: TextRequest, maximum: number): TextObstacle | undefined {
  return tools.length > maximum ? { field: 'tools', what: `more than ${maximum} tools` } : undefined
}

export function verbosityObstacle({ verbosity }: TextRequest): TextObstacle | undefined {
  return verbosity === undefined ? undefined : { field: 'verbosity', what: 'a verbosity other than "medium"' }
}

export function ownTurnObstacle({ messages }: TextRequest): TextObstacle | undefined {
  return messages.at(-1)?.role === 'assistant'
    ? { field: 'messages', what: 'a conversation that ends with the assistant’s turn' }
    : undefined
}

/** Returns the obstacle of a conversation of which a vendor that leaves out such texts would get nothing. */
export function emptinessObstacle(
  { messages }: TextRequest,
  isLeftOut: (text: string) => boolean,
  what: string,
): TextObstacle | undefined {
  const isEmpty = messages.every(({ parts }) => parts.every((part) => part.type === 'text' && isLeftOut(part.text)))
  return isEmpty ? { field: 'messages', what } : undefined
}
