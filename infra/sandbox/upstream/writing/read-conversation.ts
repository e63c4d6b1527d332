import type { SeenImage } from './read-image.ts'
import type { WritingTask } from './write-answer.ts'

/** One turn of a conversation in any vendor's wire. */
export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly texts: readonly string[]
  readonly toolResults: readonly string[]
  readonly images: readonly SeenImage[]
}

/**
 * What of a conversation the simulated model answers: the last text of the user, and results of tools only if they are the
 * very last turn.
 */
export function readConversation(
  system: readonly string[],
  turns: readonly Turn[],
): Pick<WritingTask, 'texts' | 'toolResults' | 'images'> {
  const asked = turns.findLastIndex(({ role, texts }) => role === 'user' && texts.length > 0)
  const message = turns[asked]?.texts.join('\n') ?? ''
  const others = turns.filter((_, index) => index !== asked)
  const last = turns.at(-1)?.toolResults ?? []
  const earlier = others.slice(0, last.length > 0 ? -1 : undefined).flatMap(({ toolResults }) => toolResults)
  return {
    texts: [...system, ...others.flatMap(({ texts }) => texts), ...earlier, message],
    toolResults: last,
    images: turns.flatMap(({ images }) => images),
  }
}
