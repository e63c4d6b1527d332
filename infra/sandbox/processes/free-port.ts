import { createServer } from 'node:net'

/**
 * Ports below those that operating systems give to outgoing connections (32,768 on Linux, 49,152 elsewhere): one of those
 * may be a connection's own before its server listens; and above 10,080, the last one that `fetch` and browsers refuse
 * (fetch.spec.whatwg.org, "bad port"). Each process walks a part of them by itself.
 */
const [FIRST_PORT, PARTS, PORTS_OF_PART] = [10_100, 100, 220]
let taken = 0

/**
 * Finds a TCP port that is currently free on 127.0.0.1 by listening on it and closing again.
 *
 * Another process can take the port first, so a caller must treat "address in use" as a reason to try another port.
 */
export async function findFreePort(): Promise<number> {
  const first = FIRST_PORT + (process.pid % PARTS) * PORTS_OF_PART
  for (let attempt = 0; attempt < PORTS_OF_PART; attempt++) {
    const port = first + (taken++ % PORTS_OF_PART)
    if (await probe(port).catch(() => undefined)) return port
  }
  return await probe(0)
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
