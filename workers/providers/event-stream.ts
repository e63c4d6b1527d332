import { createParser } from 'eventsource-parser'

/**
 * How far a streamed answer has come: `waiting` before its first output, `writing` since then, `finished` when its
 * output is complete and only token counts may follow, `ended` after the last event, `unusable` after an event that
 * ends it (an error, or one that cannot be read).
 */
export type StreamProgress = 'waiting' | 'writing' | 'finished' | 'ended' | 'unusable'

/** Takes the data of one event and returns how far the answer has come. */
export type TakeEvent = (data: string) => StreamProgress

export interface StreamLimits {
  readonly maximumBytes: number
  /**
   * The longest pause once output has begun. Before it only the time limit of the call counts, since models think
   * silently.
   */
  readonly stallMs: number
}

/** How a stream ended, and how far it had come. */
export type StreamEnd =
  | { readonly progress: StreamProgress; readonly end: 'closed' | 'over_limit' | 'stalled' }
  | { readonly progress: StreamProgress; readonly end: 'broken'; readonly error: unknown }

/** A single event: the largest ones carry a whole function call, or a thought signature. */
const MAXIMUM_EVENT_CHARACTERS = 8 * 1024 * 1024

/** Time for the server to end the body after the last event, so that the connection can be used again. */
const CLOSING_MS = 1000

/** The reader of a response's body. `cancel` closes the connection. */
export type BodyReader = Pick<ReadableStreamDefaultReader<Uint8Array>, 'read' | 'cancel'>

/** Some servers send blanks while they work on a whole answer; so many of them tell nothing more. */
const MAXIMUM_BEGINNING_CHARACTERS = 65_536

const EVENTS_BEGIN = /^(?:data|event|id|retry)?:/
const JSON_BEGINS = /^[[{]/
const LONGEST_BEGINNING = 'event:'.length

/** Returns the reader of a body, which a response without content may lack. */
export function readerOf({ body }: Pick<Response, 'body'>): BodyReader {
  return (body ?? new Blob([]).stream()).getReader()
}

/**
 * Returns whether a response of status 200 is a stream of server-sent events, and the reader of its whole body. The beginning of
 * the body decides, and its content type only where it shows neither events nor JSON: servers and proxies send events as
 * `text/plain` or without a type (tinyhumansai/tinyagents#56, Wei-Shaw/sub2api#2826), and a whole answer as `text/event-stream`
 * (decolua/9router#3492; all read on 1 December 2026).
 */
export async function lookAtBody(
  response: Pick<Response, 'headers' | 'body'>,
): Promise<{ readonly isEventStream: boolean; readonly reader: BodyReader }> {
  const reader = readerOf(response)
  const seen: ReturnType<BodyReader['read']>[] = []
  const decoder = new TextDecoder()
  let beginning = ''
  for (let blanks = 0; beginning.length < LONGEST_BEGINNING && blanks < MAXIMUM_BEGINNING_CHARACTERS;) {
    const read = reader.read()
    seen.push(read)
    // What fails here fails again where the body is read.
    const piece = await read.catch(() => undefined)
    if (piece === undefined || piece.done) break
    const text = decoder.decode(piece.value, { stream: true })
    beginning = `${beginning}${text}`.trimStart().slice(0, LONGEST_BEGINNING)
    blanks += text.length
    if (JSON_BEGINS.test(beginning)) break
  }
  const isNamedEvents = /^text\/event-stream\b/i.test(response.headers.get('content-type') ?? '')
  return {
    isEventStream: EVENTS_BEGIN.test(beginning) || (isNamedEvents && !JSON_BEGINS.test(beginning)),
    reader: { read: () => seen.shift() ?? reader.read(), cancel: (reason) => reader.cancel(reason) },
  }
}

/**
 * Reads a stream of server-sent events until it ends, fails, exceeds a limit or is of no further use, and then closes
 * the connection unless the server ended the response itself. Comments and pings count as activity.
 */
export async function readEventStream(
  reader: BodyReader,
  takeEvent: TakeEvent,
  { maximumBytes, stallMs }: StreamLimits,
): Promise<StreamEnd> {
  const read: { progress: StreamProgress; isTooLarge: boolean } = { progress: 'waiting', isTooLarge: false }
  const end = (how: 'closed' | 'over_limit' | 'stalled') => ({ progress: read.progress, end: how })
  const parser = createParser({
    maxBufferSize: MAXIMUM_EVENT_CHARACTERS,
    onEvent: ({ data }) => {
      if (!isEnded(read.progress)) read.progress = takeEvent(data)
    },
    onError: ({ type }) => {
      if (type === 'max-buffer-size-exceeded') read.isTooLarge = true
    },
  })
  const close = () => void reader.cancel().catch(() => undefined)
  const pause = createPause(close)
  const decoder = new TextDecoder()
  try {
    for (let bytes = 0; ;) {
      const { done, value } = await reader.read()
      if (done) {
        // Some servers and proxies leave out the blank line after the last event; the JSON of a cut one cannot be read.
        if (!isEnded(read.progress)) parser.feed(`${decoder.decode()}\n\n`)
        return end(pause.isOver() && !isEnded(read.progress) ? 'stalled' : 'closed')
      }
      bytes += value.byteLength
      if (!isEnded(read.progress)) parser.feed(decoder.decode(value, { stream: true }))
      if (read.isTooLarge || bytes > maximumBytes) return end(isEnded(read.progress) ? 'closed' : 'over_limit')
      if (read.progress === 'unusable') return end('closed')
      if (read.progress !== 'waiting') pause.begin(read.progress === 'ended' ? CLOSING_MS : stallMs)
    }
  } catch (error) {
    return { progress: read.progress, end: 'broken', error }
  } finally {
    pause.end()
    // Closes the connection of a response that has not ended; has no effect on one that has.
    close()
  }
}

function isEnded(progress: StreamProgress): boolean {
  return progress === 'ended' || progress === 'unusable'
}

/** Measures one pause after the other; `onOver` runs when one lasts too long. */
function createPause(onOver: () => void) {
  let timer: NodeJS.Timeout | undefined
  let lengthMs: number | undefined
  let over = false
  const expire = () => {
    over = true
    onOver()
  }
  return {
    begin(forMs: number) {
      if (timer !== undefined && lengthMs === forMs) return void timer.refresh()
      clearTimeout(timer)
      lengthMs = forMs
      timer = setTimeout(expire, forMs)
    },
    end: () => clearTimeout(timer),
    isOver: () => over,
  }
}
