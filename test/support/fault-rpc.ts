import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/** What befalls a JSON-RPC request instead of an answer. */
export type RpcFault =
  | 'http_500'
  | 'hang'
  | 'reset'
  | 'internal_error'
  | 'header_not_found'
  | 'not_json'
  | 'rate_limited'

/** A JSON-RPC node's front that passes requests on to a real node, or fails them. */
export interface FaultRpc {
  readonly url: string
  setTarget(rpcUrl: string): void
  /** Every request after the next `passing` ones fails; `null` heals. */
  setFault(fault: RpcFault | null, passing?: number): void
  stop(): Promise<void>
}

export async function startFaultRpc(): Promise<FaultRpc> {
  let target = ''
  let fault: RpcFault | null = null
  let passing = 0
  const server = createServer((request, response) => {
    const present = fault !== null && passing-- <= 0 ? fault : null
    void (present === null ? passOn(target, request, response) : fail(present, request, response))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    setTarget: (rpcUrl) => (target = rpcUrl),
    setFault: (next, requests = 0) => {
      fault = next
      passing = requests
      // What hangs must not outlive its fault.
      server.closeAllConnections()
    },
    stop: async () => {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

async function passOn(target: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(target, { method: 'POST', headers, body: await text(request) })
  response.writeHead(answer.status, headers).end(await answer.text())
}

async function fail(fault: RpcFault, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { id } = JSON.parse(await text(request)) as { id: number }
  const refuse = (error: { code: number; message: string }) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, error }))
  switch (fault) {
    case 'http_500':
      return void response.writeHead(500).end('upstream connect error')
    case 'rate_limited':
      return void response.writeHead(429).end('{"error":"too many requests"}')
    case 'not_json':
      return void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>maintenance</html>')
    case 'internal_error':
      return void refuse({ code: -32_603, message: 'Internal error' })
    case 'header_not_found':
      return void refuse({ code: -32_000, message: 'header not found' })
    case 'reset':
      return void request.socket.resetAndDestroy()
    case 'hang':
      return
  }
}
