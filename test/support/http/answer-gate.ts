import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A proxy that always passes requests on, and answers only while they are not held back. */
export interface AnswerGate {
  readonly url: string
  /** Holds every answer back until {@link AnswerGate.release}. */
  hold(): void
  release(): void
  stop(): Promise<void>
}

/** Starts a gate in front of the server at `targetUrl`; bytes, ends and resets pass unchanged. */
export async function startAnswerGate(targetUrl: string): Promise<AnswerGate> {
  const { hostname: host, port, origin } = new URL(targetUrl)
  const links = new Set<{ client: Socket; target: Socket }>()
  let isHeld = false
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const target = connect({ host, port: Number(port), allowHalfOpen: true, noDelay: true })
    const link = { client, target }
    links.add(link)
    client.pipe(target)
    if (!isHeld) target.pipe(client)
    for (const [socket, other] of [
      [client, target],
      [target, client],
    ] as const) {
      socket.on('error', () => other.resetAndDestroy())
      socket.on('close', () => {
        if (client.destroyed && target.destroyed) links.delete(link)
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: targetUrl.replace(origin, `http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    hold: () => {
      isHeld = true
      for (const { client, target } of links) target.unpipe(client)
    },
    release: () => {
      if (isHeld) for (const { client, target } of links) target.pipe(client)
      isHeld = false
    },
    stop: async () => {
      for (const { client, target } of links) for (const socket of [client, target]) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
