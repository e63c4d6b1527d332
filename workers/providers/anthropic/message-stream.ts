import { JsonSource } from '#shared/json/json-source.ts'
import type { StreamProgress, TakeEvent } from '../event-stream.ts'
import { callArguments } from '../text-answer.ts'
import { parseJsonText } from '../wire-fields.ts'
import { type MessageEvent, messageEventWire, type ReportedUsage, USED_EVENTS } from './wire.ts'

interface Block {
  readonly type: string
  readonly name: string
  readonly pieces: string[]
  signature: string | undefined
}

/** What has arrived of a streamed message. */
export interface MessageStream {
  readonly take: TakeEvent
  /** The error event that ended the stream, and whether the model had started by then. */
  readonly error: { readonly type: string; readonly data: string; readonly isAfterStart: boolean } | undefined
  readonly id: string | undefined
  readonly stopReason: string | undefined
  /** As far as it was reported; the vendor reports the whole output with the stop reason. */
  readonly usage: ReportedUsage
  /**
   * Returns the blocks of a whole message, without a call that the end of the output cut; `undefined` when a call is
   * malformed although nothing cut it.
   */
  content(isCut: boolean): StreamedContent | undefined
}

interface StreamedContent {
  /** In the vendor's form of a whole message. */
  readonly blocks: readonly object[]
  /** How many events the text and the arguments of these blocks arrived in. */
  readonly pieces: number
}

/**
 * Creates the assembly of a streamed message. Unknown events, blocks and deltas are ignored, as the vendor's versioning
 * asks.
 */
export function createMessageStream(): MessageStream {
  const blocks = new Map<number, Block>()
  let hasStarted = false
  let id: string | undefined
  let usage: ReportedUsage = {}
  let stopReason: string | undefined
  let error: MessageStream['error']
  let progress: StreamProgress = 'waiting'

  const apply = (event: MessageEvent, data: string): StreamProgress => {
    switch (event.type) {
      case 'message_start':
        hasStarted = true
        id = event.message.id ?? undefined
        usage = merged(usage, event.message.usage)
        return progress
      case 'content_block_start': {
        const { type, text, name, signature } = event.content_block
        blocks.set(event.index, { type, name: name ?? '', pieces: [text ?? ''], signature: signature ?? undefined })
        return progress
      }
      case 'content_block_delta': {
        const block = blocks.get(event.index)
        if (block === undefined) return 'unusable'
        addDelta(block, event.delta)
        return 'writing'
      }
      case 'content_block_stop':
        return progress
      case 'message_delta':
        stopReason = event.delta.stop_reason ?? stopReason
        usage = merged(usage, event.usage)
        return stopReason === undefined ? progress : 'finished'
      case 'message_stop':
        return stopReason === undefined ? 'unusable' : 'ended'
      case 'error':
        error = { type: event.error.type ?? 'error', data, isAfterStart: hasStarted }
        return 'unusable'
    }
  }
  return {
    take(data) {
      const event = readEvent(data)
      if (event === 'malformed') progress = 'unusable'
      else if (event !== 'ignored') progress = apply(event, data)
      return progress
    },
    get error() {
      return error
    },
    get id() {
      return id
    },
    get stopReason() {
      return stopReason
    },
    get usage() {
      return usage
    },
    content: (isCut) => contentOf([...blocks.values()], isCut),
  }
}

function readEvent(data: string): MessageEvent | 'ignored' | 'malformed' {
  const value = parseJsonText(data)
  if (typeof value !== 'object' || value === null || !('type' in value)) return 'malformed'
  if (!USED_EVENTS.has(value.type)) return 'ignored'
  const event = messageEventWire.safeParse(value)
  return event.success ? event.data : 'malformed'
}

/** Adds the part of the block's own kind: thinking is hidden, and its text is not kept. */
function addDelta(
  block: Block,
  { type, text, partial_json: json, signature }: Extract<MessageEvent, { type: 'content_block_delta' }>['delta'],
): void {
  if (type === 'text_delta' && text !== undefined) block.pieces.push(text)
  if (type === 'input_json_delta' && json !== undefined) block.pieces.push(json)
  if (type === 'signature_delta' && signature !== undefined) block.signature = signature
}

/** Later counts replace earlier ones; a count that is null says nothing. */
function merged(known: ReportedUsage, reported: ReportedUsage | null | undefined): ReportedUsage {
  const counts = Object.entries(reported ?? {}).filter(([, count]) => count !== null && count !== undefined)
  return { ...known, ...Object.fromEntries(counts) }
}

function contentOf(blocks: readonly Block[], isCut: boolean): StreamedContent | undefined {
  const content: object[] = []
  let delivered = 0
  for (const [position, { type, name, pieces, signature }] of blocks.entries()) {
    const written = pieces.join('')
    if (type === 'text') content.push({ type, text: written })
    else if (type === 'thinking') content.push({ type, ...(signature === undefined ? {} : { signature }) })
    else if (type !== 'tool_use') content.push({ type })
    else {
      const json = callArguments(written, isCut && position === blocks.length - 1)
      if (json !== undefined) content.push({ type, name, input: JsonSource.parse(json) })
      else if (isCut) continue
      else return undefined
    }
    delivered += pieces.filter((piece) => piece !== '').length
  }
  return { blocks: content, pieces: delivered }
}
