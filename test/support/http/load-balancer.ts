import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { PATIENCE_MS } from '../patience.ts'

/** As long as that of a real load balancer: an API that leaves without notice still gets requests. */
const PROBE_MS = 400
/** Connection-specific headers, which are not forwarded (RFC 9110, 7.6.1). */
const OF_ONE_CONNECTION: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'transfer-encoding'])

/** One forwarded request; they are recorded in the order of their answers. */
export interface BalancedExchange {
  readonly idempotencyKey: string | null
  readonly isPaid: boolean
  readonly backend: string
  /** `null` when the backend closed the connection after it had received the request. */
  readonly status: number | null
}

export interface LoadBalancer {
  readonly url: string
  readonly exchanges: readonly BalancedExchange[]
  /** How often a backend that was considered ready refused a connection. */
  readonly refused: number
  /** Returns the backends that currently get requests. */
  ready(): readonly string[]
  setBackends(urls: readonly string[]): void
  stop(): Promise<void>
}

interface Backend {
  readonly url: string
  readonly agent: Agent
  isReady: boolean
}

/**
 * Starts a small HTTP load balancer: round robin over the backends whose `/readyz` returns 200, with keep-alive
 * connections. A request goes to another backend only when the first one accepted no connection; a sent request is
 * never repeated.
 */
export async function startLoadBalancer(): Promise<LoadBalancer> {
  let backends: readonly Backend[] = []
  let turn = 0
  let refused = 0
  const exchanges: BalancedExchange[] = []
  const stopping = new AbortController()
  const probing = probeUntil(stopping.signal, () => backends)
  const next = (tried: ReadonlySet<Backend>) => {
    const ready = backends.filter((backend) => backend.isReady && !tried.has(backend))
    turn += 1
    return ready[turn % ready.length]
  }
  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const body = await buffer(incoming)
    const tried = new Set<Backend>()
    for (const giveUpAt = Date.now() + PATIENCE_MS; Date.now() < giveUpAt;) {
      const backend = next(tried)
      if (!backend) {
        tried.clear()
        await delay(PROBE_MS)
        continue
      }
      const status = await forward(backend, incoming, body, outgoing)
      if (status !== 'not connected') {
        const key = incoming.headers['x-idempotency-key']
        exchanges.push({
          idempotencyKey: typeof key === 'string' ? key : null,
          isPaid: 'payment-signature' in incoming.headers,
          backend: backend.url,
          status: status === 'cut' ? null : status,
        })
        if (status === 'cut' && outgoing.headersSent) outgoing.destroy()
        else if (status === 'cut') outgoing.writeHead(502).end()
        return
      }
      tried.add(backend)
      refused += 1
    }
    outgoing.writeHead(503).end()
  }
  const server = createServer((incoming, outgoing) => void handle(incoming, outgoing).catch(() => outgoing.destroy()))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    exchanges,
    get refused() {
      return refused
    },
    ready: () => backends.filter(({ isReady }) => isReady).map(({ url }) => url),
    setBackends: (urls) => {
      backends = urls.map((url) => ({ url, agent: new Agent({ keepAlive: true }), isReady: false }))
    },
    stop: async () => {
      stopping.abort()
      await probing
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
      for (const { agent } of backends) agent.destroy()
    },
  }
}

async function probeUntil(signal: AbortSignal, backends: () => readonly Backend[]): Promise<void> {
  while (!signal.aborted) {
    await Promise.all(
      backends().map(async (backend) => {
        backend.isReady = await fetch(`${backend.url}/readyz`, { signal }).then(
          ({ status }) => status === 200,
          () => false,
        )
        // Idle connections of a backend that leaves are closed; those with a request in progress finish.
        if (!backend.isReady) for (const socket of Object.values(backend.agent.freeSockets).flat()) socket?.destroy()
      }),
    )
    await delay(PROBE_MS, undefined, { signal }).catch(() => undefined)
  }
}

function forward(
  { url, agent }: Backend,
  { method, url: path, headers }: IncomingMessage,
  body: Buffer,
  outgoing: ServerResponse,
): Promise<number | 'not connected' | 'cut'> {
  return new Promise((resolve) => {
    let isConnected = false
    const passed = Object.entries(headers).filter(([name]) => !OF_ONE_CONNECTION.has(name))
    const sent = request(new URL(path ?? '/', url), { method, agent, headers: Object.fromEntries(passed) })
    sent.on('socket', (socket) => {
      if (socket.connecting) socket.once('connect', () => (isConnected = true))
      else isConnected = true
    })
    sent.on('error', () => resolve(isConnected ? 'cut' : 'not connected'))
    sent.on('response', (answer) => {
      const back = Object.entries(answer.headers).filter(([name]) => !OF_ONE_CONNECTION.has(name))
      outgoing.writeHead(answer.statusCode ?? 0, Object.fromEntries(back))
      answer.pipe(outgoing)
      answer.on('aborted', () => resolve('cut'))
      answer.on('end', () => resolve(answer.statusCode ?? 0))
    })
    sent.end(body)
  })
}
