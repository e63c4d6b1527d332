import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net'

export interface CountingProxy {
  readonly port: number
  readonly connections: number
  /** Bytes that clients have written, headers included. */
  readonly sentBytes: number
  stop(): Promise<void>
}

/** Starts a TCP proxy on loopback that counts what clients send; without a target it accepts and closes. */
export async function startCountingProxy({
  target,
  port = 0,
}: {
  readonly target?: number
  readonly port?: number
}): Promise<CountingProxy> {
  let [connections, sentBytes] = [0, 0]
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    connections += 1
    sockets.add(client)
    client.on('close', () => sockets.delete(client)).on('error', () => undefined)
    client.on('data', (chunk) => (sentBytes += chunk.length))
    if (target === undefined) {
      client.destroy()
      return
    }
    const service = createConnection({ host: '127.0.0.1', port: target })
    // Nagle's algorithm would add a delay.
    for (const socket of [client, service]) socket.setNoDelay(true)
    service.on('error', () => client.destroy()).on('close', () => client.destroy())
    client.on('close', () => service.destroy())
    client.pipe(service).pipe(client)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections
    },
    get sentBytes() {
      return sentBytes
    },
    stop: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
