import type { StreamProgress, TakeEvent } from '../event-stream.ts'
import { readLeniently } from '../lenient.ts'
import { callArguments } from '../text-answer.ts'
import { parseJsonText, storable } from '../wire-fields.ts'
import {
  type MessageEvent,
  type MessageWire,
  messageEventWire,
  type ReportedUsage,
  USED_EVENTS,
  WRITTEN,
} from './wire.ts'

interface Block {
  readonly type: MessageWire['content'][number]['type']
  readonly name: string
  /** The arguments that the block began with: all of them at servers that do not divide calls. */
  readonly input: string
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
  readonly usage: ReportedUsage | undefined
  readonly stopSequence: string | undefined
  /** Whether the whole output was counted: the count of the first event is the one before it. */
  readonly isCounted: boolean
  /** The fields that were not as documented. */
  readonly mended: readonly string[]
  /** Returns the blocks of a whole message, without a call that the end of the output cut. */
  content(isCut: boolean): StreamedContent
}

interface StreamedContent {
  /** In the vendor's form of a whole message. */
  readonly blocks: MessageWire['content']
  /** How many events the text and the arguments of these blocks arrived in. */
  readonly pieces: number
}

/**
 * Creates the assembly of a streamed message. Unknown events, blocks and deltas are ignored, as the vendor's versioning
 * asks.
 */
export function createMessageStream(): MessageStream {
  const blocks = new Map<number, Block>()
  /** The index of the latest block. */
  let latest = -1
  let hasStarted = false
  let id: string | undefined
  let usage: ReportedUsage | undefined
  let stopReason: string | undefined
  let stopSequence: string | undefined
  let isCounted = false
  const mended = new Set<string>()
  let error: MessageStream['error']
  let progress: StreamProgress = 'waiting'

  const apply = (event: MessageEvent, data: string): StreamProgress => {
    switch (event.type) {
      case 'message_start':
        hasStarted = true
        id = event.message?.id ?? undefined
        usage = merged(usage, event.message?.usage)
        return progress
      case 'content_block_start':
        latest = event.index ?? latest + 1
        if (event.content_block !== undefined) blocks.set(latest, startedBlock(event.content_block))
        return progress
      case 'content_block_delta': {
        latest = event.index ?? latest
        const block = blocks.get(latest) ?? unannounced(event.delta)
        if (block === undefined) return progress
        blocks.set(latest, block)
        addDelta(block, event.delta ?? {})
        return 'writing'
      }
      case 'content_block_stop':
        return progress
      case 'message_delta':
        stopReason = event.delta?.stop_reason ?? stopReason
        stopSequence = event.delta?.stop_sequence ?? stopSequence
        usage = merged(usage, event.usage)
        isCounted ||= event.usage?.output_tokens !== undefined
        return stopReason === undefined ? progress : 'finished'
      case 'message_stop':
        return stopReason === undefined && !hasOutput() ? 'unusable' : 'ended'
      case 'error':
        // The message is whole: what fails behind it is not of the message.
        if (stopReason !== undefined) return 'ended'
        error = { type: event.error.type ?? 'error', data, isAfterStart: hasStarted }
        return 'unusable'
    }
  }
  const hasOutput = () => [...blocks.values()].some(({ type, pieces }) => type === 'tool_use' || pieces.join('') !== '')
  return {
    take(data) {
      const { event, fields } = readEvent(data)
      for (const field of fields) mended.add(field)
      if (event !== undefined) progress = apply(event, data)
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
    get stopSequence() {
      return stopSequence
    },
    get isCounted() {
      return isCounted
    },
    get mended() {
      return [...mended]
    },
    get usage() {
      return usage
    },
    content: (isCut) => contentOf([...blocks.values()], isCut),
  }
}

/** Reads an event; none where it is unknown, or cannot be read, which costs no other event. */
function readEvent(data: string): { event?: MessageEvent | undefined; fields: readonly string[] } {
  const value = parseJsonText(data, WRITTEN)
  const isKnown = typeof value === 'object' && value !== null && 'type' in value
  if (isKnown && !USED_EVENTS.has(value.type)) return { fields: [] }
  const { value: event, mended } = readLeniently(messageEventWire, value)
  return { event, fields: event === undefined ? [...mended, 'event'] : mended }
}

function startedBlock(started: MessageWire['content'][number]): Block {
  const { type, text = '', name = '', input = '', signature } = { ...NO_FIELDS, ...started }
  return { type, name, input, pieces: [text], signature }
}

const NO_FIELDS: { text?: string | undefined; name?: string; input?: string; signature?: string | undefined } = {}

type Delta = NonNullable<Extract<MessageEvent, { type: 'content_block_delta' }>['delta']>

/** Returns the block of text whose beginning could not be read; a call without it has no name. */
function unannounced(delta: Delta | undefined): Block | undefined {
  return delta?.text === undefined ? undefined : startedBlock({ type: 'text', text: '' })
}

/** Adds the part of the block's own kind: thinking is hidden, and its text is not kept. */
function addDelta(block: Block, { text, partial_json: json, signature }: Partial<Delta>): void {
  if (block.type === 'text' && text !== undefined) block.pieces.push(text)
  if (block.type === 'tool_use' && json !== undefined) block.pieces.push(json)
  if (block.type === 'thinking' && signature !== undefined) block.signature = signature
}

/**
 * Later counts replace earlier ones; a count that is absent says nothing, and neither does an input of no token: some proxies
 * count it in the first event only, and send zeros in the last (envoyproxy/ai-gateway#1631, read on 30 November 2026).
 */
function merged(known: ReportedUsage | undefined, reported: ReportedUsage | undefined): ReportedUsage | undefined {
  if (known === undefined || reported === undefined) return reported ?? known
  const hasInput = INPUT_COUNTS.some((name) => (reported[name] ?? 0) > 0)
  const counts = Object.entries(reported).filter(
    ([name, count]) => count !== undefined && (hasInput || !INPUT_NAMES.has(name)),
  )
  return { ...known, ...Object.fromEntries(counts) }
}

const INPUT_COUNTS = ['input_tokens', 'cache_creation_input_tokens', 'cache_read_input_tokens'] as const

const INPUT_NAMES: ReadonlySet<string> = new Set(INPUT_COUNTS)

function contentOf(blocks: readonly Block[], isCut: boolean): StreamedContent {
  const content: MessageWire['content'] = []
  let delivered = 0
  for (const [position, { type, name, input, pieces, signature }] of blocks.entries()) {
    const written = pieces.join('')
    if (type === 'text') content.push({ type, text: storable(written) })
    else if (type === 'thinking') content.push({ type, signature })
    else if (type !== 'tool_use') content.push({ type: 'other' })
    else {
      const json = callArguments(
        written === '' ? wholeInput(input) : storable(written),
        isCut && position === blocks.length - 1,
      )
      if (json === undefined) continue
      content.push({ type, name, input: json })
    }
    delivered += pieces.filter((piece) => piece !== '').length
  }
  return { blocks: content, pieces: delivered }
}

/** Returns arguments that a block began with; the empty object there stands for those that follow. */
function wholeInput(input: string): string {
  return input === '{}' ? '' : input
}
