import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net'

/** The same database through a proxy that reads along. */
export interface PostgresProxy {
  readonly url: string
  stop(): Promise<void>
}

/** Called with the type of a message, the code of a letter, and what follows its length. */
export type OnMessage = (type: number, content: Buffer) => void

/** Reads one connection. */
export interface ConnectionReaders {
  readonly fromClient: OnMessage
  readonly fromServer?: OnMessage
}

/** Starts a proxy in front of PostgreSQL that shows every message of its protocol 3. It costs time. */
export async function startPostgresProxy(
  databaseUrl: string,
  onConnection: () => ConnectionReaders,
): Promise<PostgresProxy> {
  const target = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = createConnection({ host: target.hostname, port: Number(target.port) })
    const { fromClient, fromServer } = onConnection()
    client.on('data', messageReader(fromClient, { hasTypes: false }))
    if (fromServer) upstream.on('data', messageReader(fromServer, { hasTypes: true }))
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
      from.pipe(to)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(databaseUrl)
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    stop: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** Creates a parser of one half of a connection: type, length and content. A client's first message has no type. */
function messageReader(onMessage: OnMessage, { hasTypes }: { readonly hasTypes: boolean }) {
  let rest: Buffer = Buffer.alloc(0)
  let hasStarted = hasTypes
  return (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    for (;;) {
      const typeBytes = hasStarted ? 1 : 0
      if (rest.length < typeBytes + 4) return
      const end = typeBytes + rest.readInt32BE(typeBytes)
      if (rest.length < end) return
      if (hasStarted) onMessage(rest[0] ?? 0, rest.subarray(typeBytes + 4, end))
      hasStarted = true
      rest = rest.subarray(end)
    }
  }
}

/** Reads the text that ends with a zero byte, and where the next one begins. */
export function textAt(content: Buffer, start: number): { readonly text: string; readonly end: number } {
  const zero = content.indexOf(0, start)
  return { text: content.toString('utf8', start, zero), end: zero + 1 }
}
