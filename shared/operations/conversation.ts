import type { TextPart, TextRequest } from './text-request.ts'

export type TextMessage = TextRequest['messages'][number]

/** What a translation collects, in the order of the caller's messages. */
export interface Conversation {
  /** System texts, wherever they stood: a text request has one system text only. */
  readonly system: string[]
  readonly messages: TextMessage[]
}

const PARAGRAPH = '\n\n'

/** Texts of several parts as one text, in their order. */
export function joinTexts(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join(PARAGRAPH)
}

export function textPart(text: string): TextPart {
  return { type: 'text', text }
}

/** The texts among parts, as one. */
export function textOf(parts: readonly TextPart[]): string {
  return joinTexts(parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])))
}

/**
 * The messages of a text request. Empty texts beside other parts are dropped, since vendors refuse them, and a message
 * left without any part keeps one empty text. System text alone becomes the user's message: there must be one to answer.
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
