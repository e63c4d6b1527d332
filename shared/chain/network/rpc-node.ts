import { Pool } from 'undici'
import { HttpRequestError, RpcRequestError, TimeoutError } from 'viem'
import { z } from 'zod'

/** Far above the response to any call made here. */
const MAXIMUM_RESPONSE_BYTES = 10_485_760

export interface RpcCall {
  readonly method: string
  readonly params?: unknown
}

/** One JSON-RPC node. */
export interface RpcNode {
  /** Host and port, for logs and metrics. The rest of a URL often contains a key. */
  readonly host: string
  /** Sends one call once. Throws the same errors as viem's `http` transport. */
  call(call: RpcCall): Promise<unknown>
}

/** Some nodes send `error: null` with a result, and some omit the code of an error. */
const responseSchema = z.looseObject({
  result: z.unknown().optional(),
  error: z.looseObject({ code: z.number().default(0), message: z.string(), data: z.unknown().optional() }).nullish(),
})

/**
 * Opens a node over a pool of keep-alive connections; viem's `http` transport over `fetch` takes several times the CPU
 * time. `timeoutMs` limits the whole exchange. Redirects are not followed.
 */
export function openRpcNode(rpcUrl: string, timeoutMs: number): RpcNode {
  const { origin, host, pathname, search, username, password } = new URL(rpcUrl)
  const [path, url] = [`${pathname}${search}`, `${origin}${pathname}${search}`]
  const headers = { 'content-type': 'application/json', ...basicAuthorization(username, password) }
  const pool = new Pool(origin, { maxResponseSize: MAXIMUM_RESPONSE_BYTES })
  let lastId = 0

  const exchange = async (call: RpcCall) => {
    lastId += 1
    const body = JSON.stringify({ jsonrpc: '2.0', id: lastId, ...call })
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), timeoutMs)
    try {
      const response = await pool.request({ method: 'POST', path, headers, body, signal: deadline.signal })
      return { status: response.statusCode, text: await response.body.text() }
    } catch (thrown) {
      if (deadline.signal.aborted) throw new TimeoutError({ body: { ...call }, url })
      const cause = thrown instanceof Error ? thrown : new Error(String(thrown))
      throw new HttpRequestError({ body: { ...call }, cause, url })
    } finally {
      clearTimeout(timer)
    }
  }

  return {
    host,
    call: async (call) => {
      const { status, text } = await exchange(call)
      const { data: parsed } = responseSchema.safeParse(parseJson(text))
      // Gateways send the node's error with a status of their own. The error is more specific.
      if (parsed?.error) throw new RpcRequestError({ body: { ...call }, error: parsed.error, url })
      if (status < 200 || status > 299 || parsed?.result === undefined)
        throw new HttpRequestError({ body: { ...call }, details: text, status, url })
      return parsed.result
    },
  }
}

/** Returns `undefined` for invalid JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function basicAuthorization(username: string, password: string): Record<string, string> {
  if (username === '' && password === '') return {}
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` }
}
