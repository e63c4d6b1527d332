import { Agent, type IncomingMessage, request as send } from 'node:http'
import { connect, type Socket } from 'node:net'

/** A request as an attacker sends it. */
export interface AttackRequest {
  readonly method?: 'GET' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** Gives up after this long. */
  readonly patienceMs?: number
}

/** A client on an address of its own. */
export interface ClientAddress {
  readonly address: string
  /** Sends one request; `null` when no complete answer came. */
  request(url: string, request?: AttackRequest): Promise<Response | null>
  /** Opens a socket without sending anything. */
  open(url: string): Socket
}

const DEFAULT_PATIENCE_MS = 30_000

/**
 * Returns the client number `index`. Every address of 127.0.0.0/8 is this machine, and the service sees each as another
 * client. Others call from networks of their own.
 */
export function clientAddress(index: number): ClientAddress {
  return addressOf(`127.66.${Math.floor(index / 250)}.${1 + (index % 250)}`)
}

/** Returns a client of the network number `index`, a /24. */
export function clientOfNetwork(index: number): ClientAddress {
  return addressOf(`127.77.${index}.1`)
}

function addressOf(address: string): ClientAddress {
  const agent = new Agent({ keepAlive: false, localAddress: address })
  return {
    address,
    request: (url, { method = 'POST', headers = {}, body, patienceMs = DEFAULT_PATIENCE_MS } = {}) =>
      new Promise((resolve) => {
        const outgoing = send(url, { method, agent, headers, signal: AbortSignal.timeout(patienceMs) })
        outgoing.once('response', (incoming) => {
          readResponse(incoming).then(resolve, () => resolve(null))
        })
        outgoing.once('error', () => resolve(null))
        outgoing.end(body)
      }),
    open: (url) => {
      const { hostname, port } = new URL(url)
      const socket = connect({ host: hostname, port: Number(port), localAddress: address })
      // The service may close it at any time.
      socket.on('error', () => socket.destroy())
      return socket
    },
  }
}

async function readResponse(incoming: IncomingMessage): Promise<Response> {
  const chunks: Uint8Array[] = []
  for await (const chunk of incoming as AsyncIterable<Uint8Array>) chunks.push(chunk)
  const headers = new Headers()
  for (const [name, value] of Object.entries(incoming.headers))
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(', ') : value)
  return new Response(Buffer.concat(chunks), { status: incoming.statusCode ?? 0, headers })
}
