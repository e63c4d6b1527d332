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
import { imageBlockSourceSchema, imageFromBlock } from './image-source.ts'
import type { TextPart } from './text-request.ts'
import { writtenObjectSchema } from './written-object.ts'

const textBlock = z.looseObject({ type: z.literal('text'), text: z.string() })
const imageBlock = z.looseObject({ type: z.literal('image'), source: imageBlockSourceSchema })

function oneOf(...types: string[]) {
  const message = `must be one of ${types.map((type) => JSON.stringify(type)).join(', ')}`
  return { error: ({ code }: { code?: string }) => (code === 'invalid_union' ? message : undefined) }
}

const resultBlockSchema = z.discriminatedUnion('type', [textBlock, imageBlock], oneOf('text', 'image'))

/** Clients echo the model's thinking in their history; it is accepted but not forwarded. */
const blockSchema = z.discriminatedUnion(
  'type',
  [
    textBlock,
    imageBlock,
    z.looseObject({
      type: z.literal('tool_use'),
      id: z.string(),
      name: z.string(),
      input: writtenObjectSchema.optional(),
    }),
    z.looseObject({
      type: z.literal('tool_result'),
      tool_use_id: z.string(),
      content: stringOr(z.array(resultBlockSchema), 'a string or an array').optional(),
    }),
    z.looseObject({ type: z.literal('thinking') }),
    z.looseObject({ type: z.literal('redacted_thinking') }),
  ],
  oneOf('text', 'image', 'tool_use', 'tool_result', 'thinking', 'redacted_thinking'),
)

export const messageSchema = z.looseObject({
  role: z.string(),
  content: stringOr(z.array(blockSchema), 'a string or an array'),
})

/** A string or text blocks only. */
export const systemSchema = stringOr(z.array(textBlock), 'a string or an array')

type Block = z.infer<typeof blockSchema>

/**
 * Translates messages into the conversation of a text request. `system` (the field, and messages of role `system` or
 * `developer`) becomes the single system text; `assistant` is the assistant, and any other role counts as the user.
 * Images inside a tool result follow it in the same message. `cacheControl` is the request's own `cache_control`, which
 * stands for one at the end of its last block.
 */
export function translateMessages(
  system: z.infer<typeof systemSchema> | undefined,
  messages: readonly z.infer<typeof messageSchema>[],
  cacheControl?: unknown,
): TranslatedConversation {
  const conversation: Conversation = { system: systemParts(system), messages: [] }
  const toolNames = new Map<string, string>()
  for (const { role, content } of messages) {
    const parts =
      typeof content === 'string' ? [textPart(content)] : content.flatMap((block) => blockParts(block, toolNames))
    if (role !== 'system' && role !== 'developer') {
      conversation.messages.push({ role: role === 'assistant' ? 'assistant' : 'user', parts })
      continue
    }
    conversation.system.push(...textsAmong(parts))
    const others = parts.filter((part) => part.type !== 'text')
    if (others.length > 0) conversation.messages.push({ role: 'user', parts: others })
  }
  const last = conversation.messages.at(-1)?.parts
  const end = last?.pop()
  if (end !== undefined) last?.push({ ...end, ...cacheBreakpoint(cacheControl) })
  return finishConversation(conversation)
}

function systemParts(system: z.infer<typeof systemSchema> = []): Conversation['system'] {
  return typeof system === 'string'
    ? [textPart(system)]
    : system.map(({ text, cache_control: cacheControl }) => textPart(text, cacheControl))
}

function blockParts(block: Block, toolNames: Map<string, string>): TextPart[] {
  switch (block.type) {
    case 'text':
      return [textPart(block.text, block['cache_control'])]
    case 'image':
      return [{ ...imageFromBlock(block.source), ...cacheBreakpoint(block['cache_control']) }]
    case 'tool_use': {
      toolNames.set(block.id, block.name)
      return [
        {
          type: 'tool_call',
          id: block.id,
          name: block.name,
          arguments_json: block.input?.text ?? '{}',
          ...cacheBreakpoint(block['cache_control']),
        },
      ]
    }
    case 'tool_result':
      return toolResultParts(block, toolNames.get(block.tool_use_id))
    case 'thinking':
    case 'redacted_thinking':
      return []
  }
}

/**
 * Returns a tool's result and its images. A breakpoint of its last text is one of the result, whose texts are joined: SDK types
 * have one on each text block (the npm package `@anthropic-ai/sdk`, messages.d.ts, ToolResultBlockParam.content, TextBlockParam).
 */
function toolResultParts(block: Extract<Block, { type: 'tool_result' }>, name: string | undefined): TextPart[] {
  const { content = '' } = block
  const parts = typeof content === 'string' ? [textPart(content)] : content.flatMap((one) => blockParts(one, new Map()))
  const isBreakpoint =
    cacheBreakpoint(block['cache_control']).cache_breakpoint ?? textsAmong(parts).at(-1)?.cache_breakpoint
  return [
    {
      type: 'tool_result',
      tool_call_id: block.tool_use_id,
      ...(name === undefined ? {} : { name }),
      text: textOf(parts),
      ...(block['is_error'] === true ? { is_error: true } : {}),
      ...(isBreakpoint === true ? { cache_breakpoint: true } : {}),
    },
    ...parts.filter((part) => part.type === 'image'),
  ]
}
