import type { ServerResponse } from 'node:http'
import type { FaultRule } from './faults.ts'
import { sendPieces, split } from './send-answer.ts'

/** Returns the frame of one server-sent event. */
export function serverEvent(data: object, name?: string): string {
  return `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`
}

export function inGroups<Item>(items: readonly Item[], size: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  )
}

/** Sends the events of a streamed answer, each as one piece, with the faults that concern a stream. */
export async function sendStream(
  response: ServerResponse,
  headers: Readonly<Record<string, string>>,
  events: readonly string[],
  { rule, onLast }: { rule: FaultRule | undefined; onLast: () => void },
): Promise<void> {
  const streamHeaders = { ...headers, 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' }
  const send = (pieces: Iterable<Buffer>, everyMs = 0) =>
    sendPieces(response, 200, streamHeaders, pieces, { everyMs, onLast })
  switch (rule?.fault) {
    case 'slowBody':
      return send(
        inGroups(events, Math.ceil(events.length / rule.pieces)).map((group) => Buffer.from(group.join(''))),
        rule.everyMs,
      )
    case 'truncatedJson': {
      const [first = Buffer.alloc(0)] = split(Buffer.from(events.join('')), 2)
      return send([first])
    }
    case 'resetMidBody':
      return begin(response, streamHeaders, events.slice(0, events.length / 2), () =>
        response.socket?.resetAndDestroy(),
      )
    case 'midStream': {
      const before = events.slice(0, rule.afterEvents)
      if (rule.ending === 'end') return send(before.map((event) => Buffer.from(event)))
      if (rule.ending === 'reset')
        return begin(response, streamHeaders, before, () => response.socket?.resetAndDestroy())
      if (rule.ending === 'stall') return begin(response, streamHeaders, before, () => undefined)
      return send([...before, serverEvent(rule.error, 'error')].map((event) => Buffer.from(event)))
    }
    default:
      return send(events.map((event) => Buffer.from(event)))
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
