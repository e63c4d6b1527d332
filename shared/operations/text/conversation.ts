import type { TextPart, TextRequest } from './text-request.ts'

export type TextMessage = TextRequest['messages'][number]

/** The result of a translation, in the order of the caller's messages. */
export interface Conversation {
  /** System texts, wherever they occurred; a text request has a single system text. */
  readonly system: string[]
  readonly messages: TextMessage[]
}

const PARAGRAPH = '\n\n'

/** Joins texts into one, in their order. */
export function joinTexts(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join(PARAGRAPH)
}

export function textPart(text: string): TextPart {
  return { type: 'text', text }
}

/** Joins the texts among the parts into one. */
export function textOf(parts: readonly TextPart[]): string {
  return joinTexts(parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])))
}

/**
 * Returns the messages of a text request. Empty texts next to other parts are dropped, since vendors reject them, and a
 * message left without parts keeps one empty text. System text alone becomes the user's message: a model needs one to
 * answer.
 */
export function finishConversation({ system, messages }: Conversation): Pick<TextRequest, 'system' | 'messages'> {
  const systemText = joinTexts(system)
  if (messages.length === 0) return { messages: [{ role: 'user', parts: [textPart(systemText)] }] }
  return { ...(systemText === '' ? {} : { system: systemText }), messages: messages.map(withoutEmptyTexts) }
}

function withoutEmptyTexts({ role, parts }: TextMessage): TextMessage {
  const kept = parts.filter((part) => part.type !== 'text' || part.text !== '')
  return { role, parts: kept.length === 0 ? [textPart('')] : kept }
}
