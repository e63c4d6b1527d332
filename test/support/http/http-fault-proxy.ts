import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

/** What happens to one request, or to its answer. */
export type HttpFault =
  | 'none'
  | 'cut request'
  | 'refuse'
  | 'lose answer'
  | 'truncate answer'
  | 'replace answer'
  | 'swallow'

/** One request that arrived at the proxy. */
export interface FaultyExchange {
  readonly idempotencyKey: string | undefined
  readonly isPaid: boolean
  readonly fault: HttpFault
}

export interface HttpFaultProxy {
  readonly url: string
  /** In the order of arrival. */
  readonly exchanges: readonly FaultyExchange[]
  stop(): Promise<void>
}

/** Ask clients to repeat the request at once, as the SDKs of the vendors understand it. */
const AT_ONCE = { 'retry-after-ms': '1' }

/**
 * Starts a proxy in front of the HTTP server at `targetUrl` that spoils exchanges. A request that is cut, refused or swallowed
 * (never answered) does not reach the server; a lost, truncated or replaced answer is one that the server has sent.
 */
export async function startHttpFaultProxy(
  targetUrl: string,
  faultOf: (request: { isPaid: boolean }) => HttpFault,
): Promise<HttpFaultProxy> {
  const exchanges: FaultyExchange[] = []
  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const body = await buffer(incoming)
    const isPaid = 'payment-signature' in incoming.headers
    const fault = faultOf({ isPaid })
    exchanges.push({ idempotencyKey: incoming.headers['x-idempotency-key'] as string | undefined, isPaid, fault })
    if (fault === 'swallow') return
    if (fault === 'cut request') incoming.socket.resetAndDestroy()
    else if (fault === 'refuse') outgoing.writeHead(503, AT_ONCE).end('upstream connect error')
    else respond(outgoing, fault, await forward(targetUrl, incoming, body))
  }
  const server = createServer((incoming, outgoing) => void handle(incoming, outgoing).catch(() => outgoing.destroy()))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    exchanges,
    stop: async () => {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

interface ForwardedAnswer {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: Buffer
}

async function forward(
  targetUrl: string,
  { method = 'GET', url = '/', headers }: IncomingMessage,
  body: Buffer,
): Promise<ForwardedAnswer> {
  const { host: _, connection: __, 'content-length': ___, 'transfer-encoding': ____, ...passed } = headers
  const answer = await fetch(new URL(url, targetUrl), {
    method,
    headers: passed as Record<string, string>,
    ...(body.length > 0 ? { body: new Uint8Array(body) } : {}),
  })
  const { 'content-encoding': ______, ...back } = Object.fromEntries(answer.headers)
  return { status: answer.status, headers: back, body: Buffer.from(await answer.arrayBuffer()) }
}

function respond(outgoing: ServerResponse, fault: HttpFault, { status, headers, body }: ForwardedAnswer): void {
  if (fault === 'lose answer') {
    outgoing.socket?.resetAndDestroy()
  } else if (fault === 'replace answer') {
    outgoing.writeHead(502, { 'content-type': 'text/html', ...AT_ONCE }).end('<h1>Bad Gateway</h1>')
  } else if (fault === 'truncate answer') {
    outgoing.writeHead(status, { ...headers, 'content-length': String(body.length) })
    outgoing.write(body.subarray(0, body.length / 2), () => outgoing.socket?.resetAndDestroy())
  } else {
    outgoing.writeHead(status, { ...headers, 'content-length': String(body.length) }).end(body)
  }
}
