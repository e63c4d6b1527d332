import { imageBlockText, type PromptBlock } from './prompt-cache.ts'
import { readImage } from './read-image.ts'
import type { WritingTask } from './write-answer.ts'

/** A part of a turn; `content` is the text of a tool's call or result, and of an image its Base64. */
export interface TurnPart {
  readonly kind: 'text' | 'image' | 'call' | 'result'
  readonly content: string
  /** As a `PromptBlock` has it. */
  readonly isBreakpoint?: boolean
}

/** One turn of a conversation, independent of the vendor's wire format. */
export interface Turn {
  readonly role: string
  readonly parts: readonly TurnPart[]
}

/** Returns the turns as the prompt cache reads them. */
export function conversationBlocks(turns: readonly Turn[]): PromptBlock[] {
  return turns.flatMap(({ role, parts }) =>
    parts.map(({ kind, content, isBreakpoint = false }) => ({
      label: role,
      text: kind === 'image' ? imageBlockText(content) : content,
      isBreakpoint,
    })),
  )
}

/**
 * Returns the parts of a conversation that the simulated model answers: the text of the user's last turn with any, and
 * tool results only when they are in the last turn. Returns undefined when an image cannot be read.
 */
export function readConversation(
  system: readonly string[],
  turns: readonly Turn[],
): Pick<WritingTask, 'texts' | 'toolResults' | 'images'> | undefined {
  const asked = turns.findLastIndex((turn) => turn.role === 'user' && contentsOf('text', turn).length > 0)
  const message = contentsOf('text', turns[asked]).join('\n')
  const others = turns.filter((_, index) => index !== asked)
  const last = contentsOf('result', turns.at(-1))
  const earlier = others.slice(0, last.length > 0 ? -1 : undefined).flatMap((turn) => contentsOf('result', turn))
  const read = turns
    .flatMap((turn) => contentsOf('image', turn))
    .map((base64) => readImage(Buffer.from(base64, 'base64')))
  const images = read.filter((image) => image !== undefined)
  if (images.length < read.length) return undefined
  return {
    texts: [...system, ...others.flatMap((turn) => contentsOf('text', turn)), ...earlier, message],
    toolResults: last,
    images,
  }
}

function contentsOf(kind: TurnPart['kind'], turn: Turn | undefined): string[] {
  return (turn?.parts ?? []).flatMap((part) => (part.kind === kind ? [part.content] : []))
}
