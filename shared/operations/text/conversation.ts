import { AppError } from '#shared/errors/app-error.ts'
import type { TextPart, TextRequest } from './text-request.ts'
import { isObject } from './tool-arguments.ts'

export type TextMessage = TextRequest['messages'][number]

type TextOnly = Extract<TextPart, { type: 'text' }>

/** The result of a translation, in the order of the caller's messages. */
export interface Conversation {
  /** System texts, wherever they occurred; a text request has a single system text. */
  readonly system: TextOnly[]
  readonly messages: TextMessage[]
}

export type TranslatedConversation = Pick<TextRequest, 'system' | 'system_breakpoints' | 'messages'>

const PARAGRAPH = '\n\n'

/** Joins texts into one, in their order. */
function joinTexts(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join(PARAGRAPH)
}

/** Returns the part of a text; `cacheControl` is what its caller sent as `cache_control`. */
export function textPart(text: string, cacheControl?: unknown): TextOnly {
  return { type: 'text', text, ...cacheBreakpoint(cacheControl) }
}

/**
 * Reads `cache_control`. Its `ttl` is not forwarded: a longer lifetime has a price of its own, and prices are those of
 * the default one.
 */
export function cacheBreakpoint(cacheControl: unknown): { cache_breakpoint?: true } {
  return isObject(cacheControl) && cacheControl['type'] === 'ephemeral' ? { cache_breakpoint: true } : {}
}

export function textsAmong(parts: readonly TextPart[]): TextOnly[] {
  return parts.filter((part) => part.type === 'text')
}

/** Joins the texts among the parts into one. */
export function textOf(parts: readonly TextPart[]): string {
  return joinTexts(parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])))
}

/**
 * Returns the messages of a text request. Empty texts next to other parts are dropped, since vendors reject them, and a
 * message left without parts keeps one empty text. System text alone becomes the user's message: a model needs one to
 * answer. Throws `invalid_field` for a conversation in which nothing is said: there is nothing to answer, and most vendors
 * refuse it.
 */
export function finishConversation({ system, messages }: Conversation): TranslatedConversation {
  const systemText = textOf(system)
  const isEmpty = messages.every(({ parts }) => parts.every((part) => part.type === 'text' && part.text === ''))
  if (systemText === '' && isEmpty)
    throw new AppError('invalid_field', {
      param: 'messages',
      message: 'messages must say something: a text, an image, a tool call or its result. All texts are empty.',
    })
  if (messages.length === 0) return { messages: [{ role: 'user', parts: [textPart(systemText)] }] }
  const breakpoints = system.flatMap(({ text, cache_breakpoint }, index) =>
    cache_breakpoint === true && text !== '' ? [textOf(system.slice(0, index + 1)).length] : [],
  )
  return {
    ...(systemText === '' ? {} : { system: systemText }),
    ...(breakpoints.length === 0 ? {} : { system_breakpoints: breakpoints }),
    messages: messages.map(withoutEmptyTexts),
  }
}

function withoutEmptyTexts({ role, parts }: TextMessage): TextMessage {
  const kept = parts.filter((part) => part.type !== 'text' || part.text !== '')
  return { role, parts: kept.length === 0 ? [textPart('')] : kept }
}
