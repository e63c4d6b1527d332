import { z } from 'zod'
import { stringOr } from '../request-text.ts'
import {
  type Conversation,
  cacheBreakpoint,
  finishConversation,
  type TranslatedConversation,
  textOf,
  textPart,
  textsAmong,
} from './conversation.ts'
import { imageFromUrl, imageUrlSchema } from './image-source.ts'
import type { TextPart } from './text-request.ts'
import { isObject, toolArgumentsJson } from './tool-arguments.ts'

const partSchema = z.discriminatedUnion(
  'type',
  [
    z.looseObject({ type: z.literal('text'), text: z.string() }),
    z.looseObject({ type: z.literal('image_url'), image_url: z.looseObject({ url: imageUrlSchema }) }),
    z.looseObject({ type: z.literal('refusal'), refusal: z.string() }),
  ],
  { error: ({ code }) => (code === 'invalid_union' ? 'must be one of "text", "image_url", "refusal"' : undefined) },
)

const textOrNone = z.string().nullish()

const functionCallSchema = z.object({ name: z.string(), arguments: textOrNone }).nullish()

/** The input of a custom tool is any text. */
const customCallSchema = z
  .object({ name: z.string(), input: textOrNone })
  .transform(({ name, input }) => ({ name, arguments: input }))
  .nullish()

/** The calls of an assistant's turn; `function_call` is the older form, without an id. */
const callsSchema = z.object({
  tool_calls: z
    .array(
      z
        .object({ id: textOrNone, function: functionCallSchema, custom: customCallSchema })
        .refine(({ function: called, custom }) => called ?? custom, 'must have "function" or "custom"'),
    )
    .nullish(),
  function_call: functionCallSchema,
})

/** What the messages of a role may have besides content. A call or its id that was lost would change the conversation. */
const ROLE_SCHEMAS: Readonly<Record<string, z.ZodType>> = {
  assistant: callsSchema,
  tool: z.object({ tool_call_id: textOrNone }),
}

/**
 * SDKs send a turn of tool calls only, or a refusal, with `content: null` or without it, as they received it. Every other
 * message has content.
 */
export const chatMessageSchema = z
  .looseObject({ role: z.string(), content: stringOr(z.array(partSchema), 'a string or an array').nullish() })
  .check(({ value, issues }) => {
    const schema = Object.hasOwn(ROLE_SCHEMAS, value.role) ? ROLE_SCHEMAS[value.role] : undefined
    for (const issue of schema?.safeParse(value).error?.issues ?? [])
      issues.push({ ...issue, input: value } as z.core.$ZodRawIssue)
  })
  .check(({ value, issues }) => {
    const hasContent = value.content !== undefined && value.content !== null
    if (hasContent || hasToolCalls(value) || refusalOf(value) !== '') return
    issues.push({ code: 'custom', path: ['content'], message: 'must be a string or an array', input: value.content })
  })
  // The published schema requires content; null is the exception that SDKs need.
  .meta({ required: ['role', 'content'] })

type ChatMessage = z.infer<typeof chatMessageSchema>

/**
 * Translates chat messages into the conversation of a text request.
 *
 * `system` and `developer` texts are joined into the single system text, wherever they occur; images among them become
 * the user's. `tool` and `function` messages are the user's tool results, neighboring ones in one message. `assistant`
 * is the assistant. Any other role counts as the user: the published schema only requires that a role is a string.
 */
export function translateChatMessages(messages: readonly ChatMessage[]): TranslatedConversation {
  const conversation: Conversation = { system: [], messages: [] }
  const toolNames = new Map<string, string>()
  let previousRole = ''
  for (const message of messages) {
    const parts = partsOf(message)
    switch (message.role) {
      case 'system':
      case 'developer': {
        conversation.system.push(...textsAmong(parts))
        const images = imagesOf(parts)
        if (images.length > 0) conversation.messages.push({ role: 'user', parts: images })
        break
      }
      case 'tool':
      case 'function': {
        const results = [toolResult(message, parts, toolNames), ...imagesOf(parts)]
        const last = conversation.messages.at(-1)
        if (last && (previousRole === 'tool' || previousRole === 'function')) last.parts.push(...results)
        else conversation.messages.push({ role: 'user', parts: results })
        break
      }
      case 'assistant': {
        const calls = toolCalls(message)
        for (const { id, name } of calls) toolNames.set(id, name)
        conversation.messages.push({ role: 'assistant', parts: [...parts, ...calls] })
        break
      }
      default:
        conversation.messages.push({ role: 'user', parts })
    }
    previousRole = message.role
  }
  return finishConversation(conversation)
}

/** Returns the parts of a message. A refusal beside the content is what its model said. */
function partsOf(message: ChatMessage): TextPart[] {
  const parts = contentParts(message.content)
  const refusal = message.role === 'assistant' ? refusalOf(message) : ''
  return refusal === '' ? parts : [...parts, textPart(refusal)]
}

function refusalOf({ refusal }: Readonly<Record<string, unknown>>): string {
  return typeof refusal === 'string' ? refusal : ''
}

function contentParts(content: ChatMessage['content']): TextPart[] {
  if (content === undefined || content === null) return []
  if (typeof content === 'string') return [textPart(content)]
  return content.map((part) => {
    switch (part.type) {
      case 'text':
        return textPart(part.text, part['cache_control'])
      case 'refusal':
        return textPart(part.refusal)
      case 'image_url':
        return { ...imageFromUrl(part.image_url.url), ...cacheBreakpoint(part['cache_control']) }
    }
  })
}

function imagesOf(parts: readonly TextPart[]): TextPart[] {
  return parts.filter((part) => part.type === 'image')
}

function hasToolCalls(message: Record<string, unknown>): boolean {
  const calls = message['tool_calls']
  return (Array.isArray(calls) && calls.length > 0) || isObject(message['function_call'])
}

function toolCalls(message: ChatMessage): Extract<TextPart, { type: 'tool_call' }>[] {
  const { tool_calls: listed, function_call: older } = callsSchema.parse(message)
  return [...(listed ?? []), { function: older }].flatMap(({ id, function: called, custom }) => {
    const { name, arguments: text } = called ?? custom ?? {}
    if (name === undefined) return []
    return [{ type: 'tool_call', id: id ?? idOfUnnamedCall(name), name, arguments_json: toolArgumentsJson(text ?? '') }]
  })
}

function toolResult(message: ChatMessage, parts: readonly TextPart[], toolNames: Map<string, string>): TextPart {
  const given = typeof message['name'] === 'string' ? message['name'] : undefined
  const id = typeof message['tool_call_id'] === 'string' ? message['tool_call_id'] : idOfUnnamedCall(given ?? '')
  const name = toolNames.get(id) ?? given
  const isBreakpoint = textsAmong(parts).at(-1)?.cache_breakpoint
  return {
    type: 'tool_result',
    tool_call_id: id,
    ...(name === undefined ? {} : { name }),
    text: textOf(parts),
    ...(isBreakpoint === true ? { cache_breakpoint: true } : {}),
  }
}

/** Returns the id that links older function calls to their results: they share only the name. */
function idOfUnnamedCall(name: string): string {
  return `function_${name}`
}
