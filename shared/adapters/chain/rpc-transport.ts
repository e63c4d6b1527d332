import { Pool } from 'undici'
import { custom, HttpRequestError, RpcRequestError, TimeoutError, type Transport } from 'viem'
import { z } from 'zod'

/** No answer to a single call is nearly as long. */
const MAXIMUM_ANSWER_BYTES = 10_485_760

interface RpcCall {
  readonly method: string
  readonly params?: unknown
}

/** Some nodes write `error: null` beside a result, and some leave the code of an error out. */
const answerSchema = z.looseObject({
  result: z.unknown().optional(),
  error: z.looseObject({ code: z.number().default(0), message: z.string(), data: z.unknown().optional() }).nullish(),
})

/**
 * JSON-RPC over one pool of kept connections, each call sent once. It throws the errors of viem's own `http` transport, whose
 * `fetch` costs a multiple of the processor time. `timeoutMs` is for the whole exchange. Redirects are not followed.
 */
export function rpcTransport(rpcUrl: string, timeoutMs: number): Transport {
  const { origin, pathname, search, username, password } = new URL(rpcUrl)
  const [path, url] = [`${pathname}${search}`, `${origin}${pathname}${search}`]
  const headers = { 'content-type': 'application/json', ...basicAuthorization(username, password) }
  const pool = new Pool(origin, { maxResponseSize: MAXIMUM_ANSWER_BYTES })
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

  const request = async (call: RpcCall): Promise<unknown> => {
    const { status, text } = await exchange(call)
    const { data: answer } = answerSchema.safeParse(parseJson(text))
    // Gateways put the node's own error under a status of theirs; it says more than the status.
    if (answer?.error) throw new RpcRequestError({ body: { ...call }, error: answer.error, url })
    if (status < 200 || status > 299 || answer?.result === undefined)
      throw new HttpRequestError({ body: { ...call }, details: text, status, url })
    return answer.result
  }
  return custom({ request }, { key: 'http', name: 'HTTP JSON-RPC', retryCount: 0 })
}

/** `undefined` for what is no JSON. */
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
