import type { SeenImage } from './read-image.ts'
import type { WritingTask } from './write-answer.ts'

/** One turn of a conversation, independent of the vendor's wire format. */
export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly texts: readonly string[]
  readonly toolResults: readonly string[]
  readonly images: readonly SeenImage[]
}

/**
 * Returns the parts of a conversation that the simulated model answers: the user's last text, and tool results only when they
 * are the last turn.
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
