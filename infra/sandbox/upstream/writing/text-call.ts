import { type ImageMediaType, imageMediaType, imageSize, type PixelSize } from '#shared/operations/text/image-bytes.ts'
import type { CacheRule } from './prompt-cache.ts'

/** A part of a turn; `content` is the text of a tool's call or result, and of an image its Base64. */
export interface TurnPart {
  readonly kind: 'text' | 'image' | 'call' | 'result'
  readonly content: string
  /** As a `PromptBlock` has it. */
  readonly isBreakpoint?: boolean
}

export interface Turn {
  readonly role: string
  readonly parts: readonly TurnPart[]
}

export interface WritingTool {
  readonly name: string
  readonly description?: string | undefined
  /** JSON Schema of the arguments, in the vendor's dialect. */
  readonly parameters: unknown
  readonly isBreakpoint?: boolean
}

export interface Thinking {
  readonly effort: 'minimal' | 'low' | 'medium' | 'high'
  /** The most tokens that it may spend. */
  readonly budgetTokens?: number | undefined
}

/** A text call, independent of the vendor's wire format. Absent options have their vendors' defaults. */
export interface TextCall {
  readonly model: string
  readonly isStreamed: boolean
  /** The conversation, with instructions as turns of `system`. */
  readonly turns: readonly Turn[]
  readonly tools?: readonly WritingTool[] | undefined
  readonly toolChoice?: 'auto' | 'none' | 'required' | { readonly name: string } | undefined
  /** Whether at most one tool is called. */
  readonly callsOne?: boolean
  readonly responseFormat?:
    | { readonly type: 'text' | 'json_object' }
    | { readonly type: 'json_schema'; readonly schema: unknown }
    | undefined
  /** Returns an image's tokens; default 258, Gemini's fixed number for a small image. */
  readonly imageTokens?: (size: PixelSize) => number
  readonly cache?: CacheRule | undefined
  readonly maxOutputTokens?: number | undefined
  readonly stopSequences?: readonly string[]
  /** How hard the model thinks before it writes; by default not at all. */
  readonly thinking?: Thinking | undefined
}

/** What the simulated model reads of a conversation. */
export interface ReadConversation {
  /** The text of the user's last turn with any, which is answered. */
  readonly message: string
  readonly isFirst: boolean
  /** Those of the last turn. */
  readonly toolResults: readonly string[]
  readonly images: readonly SeenImage[]
}

export interface SeenImage extends PixelSize {
  readonly type: ImageMediaType
}

/** Reads a conversation; undefined when an image cannot be read. */
export function readConversation(turns: readonly Turn[]): ReadConversation | undefined {
  const contents = (kind: TurnPart['kind'], of: readonly Turn[]) =>
    of.flatMap(({ parts }) => parts.filter((part) => part.kind === kind).map(({ content }) => content))
  const asked = turns.findLast((turn) => turn.role === 'user' && contents('text', [turn]).length > 0)
  const others = turns.filter((turn) => turn !== asked)
  const read = contents('image', turns).map((base64) => readImage(Buffer.from(base64, 'base64')))
  const images = read.filter((image) => image !== undefined)
  if (images.length < read.length) return undefined
  return {
    message: contents('text', asked === undefined ? [] : [asked]).join('\n'),
    isFirst: contents('text', others).length === 0,
    toolResults: contents('result', turns.slice(-1)),
    images,
  }
}

function readImage(bytes: Buffer): SeenImage | undefined {
  const type = imageMediaType(bytes)
  const isGif = type === 'image/gif' && bytes.length >= 10
  const size = isGif ? { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) } : imageSize(bytes)
  return type === null || size === null ? undefined : { type, ...size }
}
