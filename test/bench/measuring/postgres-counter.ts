import type { AddressInfo } from 'node:net'
import { createConnection, createServer, type Socket } from 'node:net'

/** Statements by their text, white space folded, with how often each was sent. */
export type StatementCounts = ReadonlyMap<string, number>

export interface PostgresCounter {
  /** Same database, reached through the counter. */
  readonly url: string
  /** What was sent since the last call. */
  take(): StatementCounts
  stop(): Promise<void>
}

/** Type bytes of the frontend's messages that carry a statement: simple query, and parse of the extended protocol. */
const [QUERY, PARSE] = ['Q'.charCodeAt(0), 'P'.charCodeAt(0)]

/**
 * Passes connections on to PostgreSQL and counts the statements in what clients send. Whatever its driver sends is seen,
 * `BEGIN` and `COMMIT` too; it costs time, so what is counted is not timed.
 */
export async function startPostgresCounter(databaseUrl: string): Promise<PostgresCounter> {
  const target = new URL(databaseUrl)
  let counts = new Map<string, number>()
  const count = (statement: string) => {
    const text = statement.replaceAll(/\s+/g, ' ').trim()
    counts.set(text, (counts.get(text) ?? 0) + 1)
  }
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = createConnection({ host: target.hostname, port: Number(target.port) })
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.setNoDelay(true)
      // Whoever ends a connection in the middle ends the other half too.
      from.on('error', () => to.destroy())
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
    const read = createMessageReader(count)
    client.on('data', read)
    client.pipe(upstream)
    upstream.pipe(client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(databaseUrl)
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    take: () => {
      const taken = counts
      counts = new Map()
      return taken
    },
    stop: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** Reads the frontend's half of PostgreSQL's protocol 3: a start-up message without a type, then type, length and content. */
function createMessageReader(onStatement: (statement: string) => void): (chunk: Buffer) => void {
  let pending: Buffer = Buffer.alloc(0)
  let hasStarted = false
  return (chunk) => {
    pending = Buffer.concat([pending, chunk])
    for (;;) {
      const typeBytes = hasStarted ? 1 : 0
      if (pending.length < typeBytes + 4) return
      const end = typeBytes + pending.readInt32BE(typeBytes)
      if (pending.length < end) return
      const content = pending.subarray(typeBytes + 4, end)
      if (hasStarted && pending[0] === QUERY) onStatement(readText(content, 0).text)
      // A parse message begins with the prepared statement's name.
      if (hasStarted && pending[0] === PARSE) onStatement(readText(content, readText(content, 0).end).text)
      hasStarted = true
      pending = pending.subarray(end)
    }
  }
}

function readText(content: Buffer, start: number): { readonly text: string; readonly end: number } {
  const zero = content.indexOf(0, start)
  return { text: content.toString('utf8', start, zero), end: zero + 1 }
}
