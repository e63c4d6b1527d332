import type { AddressInfo } from 'node:net'
import { createConnection, createServer, type Socket } from 'node:net'

/** The number of times each statement was sent, by its text with normalized white space. */
export type StatementCounts = ReadonlyMap<string, number>

export interface PostgresCounter {
  /** The same database through the counter. */
  readonly url: string
  /** Returns the statements sent since the previous call. */
  take(): StatementCounts
  /** Returns the names of the prepared statements that were ever sent, by their text as it was sent. */
  preparedNames(): ReadonlyMap<string, string>
  stop(): Promise<void>
}

/** Types of client messages: a simple query; and in the extended protocol a statement's text and each use of it. */
const [QUERY, PARSE, BIND] = ['Q', 'P', 'B'].map((letter) => letter.charCodeAt(0))

/**
 * Starts a proxy that counts the statements that clients send to PostgreSQL, `BEGIN` and `COMMIT` included. The proxy
 * costs time, so counted calls are not timed.
 */
export async function startPostgresCounter(databaseUrl: string): Promise<PostgresCounter> {
  const target = new URL(databaseUrl)
  let counts = new Map<string, number>()
  const count = (statement: string) => {
    const text = statement.replaceAll(/\s+/g, ' ').trim()
    counts.set(text, (counts.get(text) ?? 0) + 1)
  }
  const names = new Map<string, string>()
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = createConnection({ host: target.hostname, port: Number(target.port) })
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.setNoDelay(true)
      // A failure or end of one half closes the other.
      from.on('error', () => to.destroy())
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
    const read = createMessageReader(count, (name, text) => names.set(text, name))
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
    preparedNames: () => names,
    stop: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/**
 * Creates a parser of the client's half of PostgreSQL's protocol 3: a startup message without a type, then type,
 * length and content.
 */
function createMessageReader(
  onStatement: (statement: string) => void,
  onPrepared: (name: string, text: string) => void,
): (chunk: Buffer) => void {
  let pending: Buffer = Buffer.alloc(0)
  let hasStarted = false
  /** Statements by name; the unnamed statement has the empty name. */
  const prepared = new Map<string, string>()
  return (chunk) => {
    pending = Buffer.concat([pending, chunk])
    for (;;) {
      const typeBytes = hasStarted ? 1 : 0
      if (pending.length < typeBytes + 4) return
      const end = typeBytes + pending.readInt32BE(typeBytes)
      if (pending.length < end) return
      const content = pending.subarray(typeBytes + 4, end)
      const type = hasStarted ? pending[0] : undefined
      if (type === QUERY) onStatement(readText(content, 0).text)
      if (type === PARSE || type === BIND) {
        // A statement's message starts with its name, a use with the portal's.
        const first = readText(content, 0)
        const second = readText(content, first.end)
        if (type === PARSE) {
          prepared.set(first.text, second.text)
          if (first.text !== '') onPrepared(first.text, second.text)
        } else onStatement(prepared.get(second.text) ?? 'unknown')
      }
      hasStarted = true
      pending = pending.subarray(end)
    }
  }
}

function readText(content: Buffer, start: number): { readonly text: string; readonly end: number } {
  const zero = content.indexOf(0, start)
  return { text: content.toString('utf8', start, zero), end: zero + 1 }
}
