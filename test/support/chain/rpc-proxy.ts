import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** One JSON-RPC request as received. */
export interface RpcCall {
  readonly method: string
  readonly params: readonly unknown[]
}

/** A node's answer, true or false. */
export type RpcAnswer = { readonly result: unknown } | { readonly error: { code: number; message: string } }

/**
 * A fault between a client and a node. `reset` breaks the connection before the node sees the call; `lost_answer` lets
 * the node act first; `hang` never answers; `slow` answers correctly after a while, `held` once a promise resolves;
 * `lie` changes the node's answer; `forge` answers without calling the node; the others answer as a broken gateway or
 * node would.
 */
export type RpcFault =
  | { readonly kind: 'reset' | 'hang' | 'lost_answer' | 'invalid_json' | 'html' | 'empty' }
  | { readonly kind: 'status'; readonly status: number }
  | { readonly kind: 'error'; readonly code: number; readonly message: string }
  | { readonly kind: 'slow'; readonly delayMs: number }
  | { readonly kind: 'held'; readonly until: Promise<void> }
  | { readonly kind: 'lie'; readonly change: (truth: RpcAnswer) => RpcAnswer }
  | { readonly kind: 'forge'; readonly answer: RpcAnswer }

export interface RpcProxy {
  readonly url: string
  /** Methods of the received calls, in order, including those that met a fault. */
  readonly calls: readonly string[]
  /** Applies the fault to calls of these methods (all, when none is named); `null` lets everything pass. */
  setFault(fault: RpcFault | null, ...methods: readonly string[]): void
  /** Applies the fault to `times` calls, after `passing` calls that pass. */
  setFaultFor(passing: number, times: number, fault: RpcFault): void
  /** Lets `choose` pick the fault of each call, before any other setting; `null` lets the call pass. */
  chooseFault(choose: (call: RpcCall) => RpcFault | null | Promise<RpcFault | null>): void
  /**
   * Answers, until `thaw`, as a node that has stopped importing blocks: it knows this block as the latest one and no
   * transaction of a later one, and still forwards transactions.
   */
  freeze(): Promise<void>
  thaw(): void
  stop(): Promise<void>
}

/** Turns a receipt into that of an OP-stack rollup, which names the fee of the transaction's data beside its gas. */
export function withDataFee(wei: bigint): RpcFault {
  return {
    kind: 'lie',
    change: (truth) =>
      'result' in truth && truth.result ? { result: { ...truth.result, l1Fee: `0x${wei.toString(16)}` } } : truth,
  }
}

/** Faults whose call reaches the node. */
const DELIVERED: ReadonlySet<RpcFault['kind']> = new Set(['lost_answer', 'slow', 'held', 'lie'])

/** Starts a JSON-RPC proxy in front of `targetUrl` whose faults are chosen by method. */
export async function startRpcProxy(targetUrl: string): Promise<RpcProxy> {
  const calls: string[] = []
  let fault: RpcFault | null = null
  let faultyMethods: ReadonlySet<string> = new Set()
  let [passing, times] = [0, Number.POSITIVE_INFINITY]
  let choose: Parameters<RpcProxy['chooseFault']>[0] | null = null
  let frozenAt: string | null = null
  const takeFault = async (call: RpcCall): Promise<RpcFault | null> => {
    const { method } = call
    const chosen = await choose?.(call)
    if (chosen) return chosen
    if (!fault || (faultyMethods.size > 0 && !faultyMethods.has(method))) return null
    if (passing > 0) {
      passing -= 1
      return null
    }
    times -= 1
    return times >= 0 ? fault : null
  }
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await readBody(request)
    const { id, method, params = [] } = JSON.parse(body) as { id: number; method: string; params?: unknown[] }
    calls.push(method)
    const met = await takeFault({ method, params })
    if (met && !DELIVERED.has(met.kind)) return answerFaulty(met, id, request, response)
    if (met?.kind === 'slow') await delay(met.delayMs)
    if (met?.kind === 'held') await met.until
    const asked =
      frozenAt === null ? body : JSON.stringify({ jsonrpc: '2.0', id, method, params: upTo(frozenAt, params) })
    const upstream = await postJson(targetUrl, asked)
    const answered = await upstream.text()
    const text = frozenAt === null ? answered : hideAfter(frozenAt, method, answered)
    if (met?.kind === 'lost_answer') request.socket.destroy()
    else if (met?.kind === 'lie')
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id, ...met.change(JSON.parse(text) as RpcAnswer) }))
    else response.writeHead(upstream.status, { 'content-type': 'application/json' }).end(text)
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => request.socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    setFault: (next, ...methods) => {
      fault = next
      faultyMethods = new Set(methods)
      passing = 0
      times = Number.POSITIVE_INFINITY
    },
    chooseFault: (next) => {
      choose = next
    },
    freeze: async () => {
      const latest = await postJson(targetUrl, JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_blockNumber' }))
      frozenAt = ((await latest.json()) as { result: string }).result
    },
    thaw: () => {
      frozenAt = null
    },
    setFaultFor: (nextPassing, nextTimes, next) => {
      fault = next
      faultyMethods = new Set()
      passing = nextPassing
      times = nextTimes
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function postJson(url: string, body: string): Promise<Response> {
  return fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
}

/** Replaces the tags of the newest block by the number of an older one. */
function upTo(block: string, params: readonly unknown[]): readonly unknown[] {
  return params.map((param) => (param === 'latest' || param === 'pending' ? block : param))
}

/** Returns an answer without what later blocks contain. */
function hideAfter(block: string, method: string, text: string): string {
  const answer = JSON.parse(text) as { result?: { number?: string; blockNumber?: string } | null }
  if (method === 'eth_blockNumber') return JSON.stringify({ ...answer, result: block })
  const found = answer.result?.number ?? answer.result?.blockNumber
  return found !== undefined && BigInt(found) > BigInt(block) ? JSON.stringify({ ...answer, result: null }) : text
}

function answerFaulty(fault: RpcFault, id: number, request: IncomingMessage, response: ServerResponse): void {
  const json = { 'content-type': 'application/json' }
  switch (fault.kind) {
    case 'hang':
      return
    case 'reset':
      request.socket.resetAndDestroy()
      return
    case 'lost_answer':
    case 'slow':
    case 'held':
    case 'lie':
      request.socket.destroy()
      return
    case 'invalid_json':
      response.writeHead(200, json).end('{"jsonrpc":"2.0","id":1,"resu')
      return
    case 'html':
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>execution reverted</html>')
      return
    case 'empty':
      response.writeHead(200, json).end()
      return
    case 'status':
      response.writeHead(fault.status, json).end('{"error":"upstream"}')
      return
    case 'forge':
      response.writeHead(200, json).end(JSON.stringify({ jsonrpc: '2.0', id, ...fault.answer }))
      return
    case 'error': {
      const { code, message } = fault
      response.writeHead(200, json).end(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } }))
    }
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}
