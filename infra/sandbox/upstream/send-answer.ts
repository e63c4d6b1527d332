import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as wait } from 'node:timers/promises'
import type { FaultRule } from './faults.ts'
import { inGroups, serverEvent } from './server-event.ts'

/**
 * Sends `pieces` as one body, waiting `everyMs` between them. `onLast` runs directly before the last piece, so that a client
 * with the whole answer finds it in the call log. Rejects when the client disconnects first.
 */
export async function sendPieces(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  pieces: Iterable<Buffer>,
  { everyMs = 0, onLast }: { everyMs?: number; onLast: () => void },
): Promise<void> {
  response.writeHead(status, headers)
  await pipeline(Readable.from(paced(pieces, everyMs, onLast)), response)
}

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
export function* split(body: Buffer, count: number): Generator<Buffer> {
  const length = Math.max(1, Math.ceil(body.length / count))
  for (let offset = 0; offset < body.length; offset += length) yield body.subarray(offset, offset + length)
}

/** Generates a JSON object padded with a long string to `bytes` bytes, piece by piece. */
export function* padded(bytes: number): Generator<Buffer> {
  const head = Buffer.from('{"text":"')
  const tail = Buffer.from('"}')
  const piece = Buffer.alloc(65_536, 'x')
  yield head
  for (let left = bytes - head.length - tail.length; left > 0; left -= piece.length) yield piece.subarray(0, left)
  yield tail
}

/** Sends the events of a streamed answer, each as one piece, with the faults that concern a stream. */
export async function sendStream(
  response: ServerResponse,
  headers: Readonly<Record<string, string>>,
  events: readonly string[],
  { rule, onLast }: { rule: FaultRule | undefined; onLast: () => void },
): Promise<void> {
  const streamHeaders = { ...headers, 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' }
  const send = (pieces: readonly (string | Buffer)[], everyMs = 0) =>
    sendPieces(
      response,
      200,
      streamHeaders,
      pieces.map((piece) => Buffer.from(piece)),
      { everyMs, onLast },
    )
  const reset = () => response.socket?.resetAndDestroy()
  switch (rule?.fault) {
    case 'slowBody':
      return send(inGroups(events, Math.ceil(events.length / rule.pieces)), rule.everyMs)
    case 'truncatedJson':
      return send([...split(Buffer.from(events.join('')), 2)].slice(0, 1))
    case 'resetMidBody':
      return begin(response, streamHeaders, events.slice(0, events.length / 2), reset)
    case 'midStream': {
      const before = events.slice(0, rule.afterEvents)
      if (rule.ending === 'end') return send(before)
      if (rule.ending === 'error') return send([...before, serverEvent(rule.error, 'error')])
      return begin(response, streamHeaders, before, rule.ending === 'reset' ? reset : () => undefined)
    }
    default:
      return send(events)
  }
}

/** Sends the first events and leaves the response open; `onSent` decides what becomes of it. */
async function begin(
  response: ServerResponse,
  headers: Readonly<Record<string, string>>,
  events: readonly string[],
  onSent: () => void,
): Promise<void> {
  response.writeHead(200, headers)
  response.flushHeaders()
  response.write(events.join('') || ':\n\n', onSent)
}
