import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as wait } from 'node:timers/promises'
import type { CallLog, UpstreamCall } from './call-log.ts'
import type { FaultRule } from './faults.ts'
import { serverEvent } from './server-event.ts'
import type { VendorAnswer } from './vendor-route.ts'

const STREAM_HEADERS = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' }

interface Sending {
  readonly rule: FaultRule | undefined
  readonly log: CallLog
  readonly call: UpstreamCall
}

/**
 * Sends an answer as the rule says: its body, or the events of its stream, each as one piece. Rejects when the client
 * disconnects first.
 */
export async function sendAnswer(
  response: ServerResponse,
  { status, body, headers, ...answer }: VendorAnswer,
  { rule, log, call }: Sending,
): Promise<void> {
  const events = rule?.fault === 'hugeBody' ? undefined : answer.events?.map((event) => Buffer.from(event))
  const bytes = events === undefined ? bytesOf(body) : Buffer.concat(events)
  const half = bytes.subarray(0, bytes.length / 2)
  const reset = () => response.socket?.resetAndDestroy()
  const writeHead = (known: Readonly<Record<string, string>> = {}) =>
    response.writeHead(status, {
      'content-type': 'application/json',
      ...headers,
      ...(events && STREAM_HEADERS),
      ...known,
    })
  const send = async (pieces: Iterable<Buffer>, everyMs = 0) => {
    writeHead()
    await pipeline(Readable.from(paced(pieces, everyMs, () => log.answered(call, status))), response)
  }
  /** Sends the beginning and leaves the response open; `onSent` decides what becomes of it. */
  const begin = (beginning: Buffer, onSent: () => void) => {
    writeHead(events === undefined ? { 'content-length': String(bytes.length) } : {})
    response.flushHeaders()
    response.write(beginning.length === 0 ? ':\n\n' : beginning, onSent)
  }
  switch (rule?.fault) {
    case 'hang':
      return
    case 'resetAfterRead':
      reset()
      return
    case 'resetMidBody':
      call.status = status
      begin(half, reset)
      return
    case 'truncatedJson':
      return send([half])
    case 'hugeBody':
      return send(padded(rule.bytes))
    case 'slowBody':
      return send(split(bytes, rule.pieces), rule.everyMs)
    case 'midStream': {
      if (events === undefined) return send([bytes])
      const before = events.slice(0, rule.afterEvents)
      if (rule.ending === 'end') return send(before)
      if (rule.ending === 'error') return send([...before, Buffer.from(serverEvent(rule.error, 'error'))])
      begin(Buffer.concat(before), rule.ending === 'reset' ? reset : () => undefined)
      return
    }
    default:
      return send(events ?? [bytes])
  }
}

function bytesOf(body: unknown): Buffer {
  if (body instanceof Uint8Array) return Buffer.from(body)
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body ?? {}))
}

/**
 * Yields the pieces, waiting `everyMs` between them. `onLast` runs directly before the last one, so that a client with the
 * whole answer finds it in the call log.
 */
async function* paced(pieces: Iterable<Buffer>, everyMs: number, onLast: () => void): AsyncGenerator<Buffer> {
  let waiting: Buffer | undefined
  for (const piece of pieces) {
    if (waiting !== undefined) {
      yield waiting
      if (everyMs > 0) await wait(everyMs)
    }
    waiting = piece
  }
  onLast()
  if (waiting !== undefined) yield waiting
}

/** Splits a body into at most `count` pieces. */
function* split(body: Buffer, count: number): Generator<Buffer> {
  const length = Math.max(1, Math.ceil(body.length / count))
  for (let offset = 0; offset < body.length; offset += length) yield body.subarray(offset, offset + length)
}

/** Generates a JSON object padded with a long string to `bytes` bytes, piece by piece. */
function* padded(bytes: number): Generator<Buffer> {
  const [head, tail, piece] = [Buffer.from('{"text":"'), Buffer.from('"}'), Buffer.alloc(65_536, 'x')]
  yield head
  for (let left = bytes - head.length - tail.length; left > 0; left -= piece.length) yield piece.subarray(0, left)
  yield tail
}
