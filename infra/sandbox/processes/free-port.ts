import { createServer } from 'node:net'

/**
 * Finds a TCP port that is currently free on 127.0.0.1 by listening on port 0 and closing again.
 *
 * Another process can take the port first, so a caller must treat "address in use" as a reason to try another port.
 */
export function findFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ host: '127.0.0.1', port: 0, exclusive: true }, () => {
      const address = server.address()
      server.close(() => {
        if (address === null || typeof address === 'string') reject(new Error('The probe socket has no port'))
        else resolve(address.port)
      })
    })
  })
}
