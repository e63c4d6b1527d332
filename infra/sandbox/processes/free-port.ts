import { createServer } from 'node:net'

/**
 * Finds a TCP port that is currently free on 127.0.0.1 by listening on it and closing again.
 *
 * Another process can take the port first, so a caller must treat "address in use" as a reason to try another port.
 */
export function findFreePort(): Promise<number> {
  return probe(0)
}

/** Returns `port` while it is free, otherwise another one. */
export async function preferPort(port: number | undefined): Promise<number> {
  return port === undefined ? await findFreePort() : await probe(port).catch(findFreePort)
}

/** Listens on `port`, or on any port for 0, and closes again. Rejects when it is taken. */
function probe(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => {
      const address = server.address()
      server.close(() => {
        if (address === null || typeof address === 'string') reject(new Error('The probe socket has no port'))
        else resolve(address.port)
      })
    })
  })
}
