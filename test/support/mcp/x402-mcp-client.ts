import { isDeepStrictEqual } from 'node:util'
import { x402Client } from '@x402/core/client'
import type { PaymentPayload, PaymentRequired, SettleResponse } from '@x402/core/types'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { privateKeyToAccount } from 'viem/accounts'

/*
 * A client written from the page of the x402 specification about MCP and from nothing of farebox: it knows JSON-RPC, the
 * names of that page and the official signer. The page is specs/transports-v2/mcp.md of github.com/x402-foundation/x402 at
 * 2cbfc56b (August 2026), its tool-result binding, which reads so since commit b74dd052 of 2026-02-03:
 *
 * "Servers MUST provide the `PaymentRequired` in both formats: 1. `structuredContent` (REQUIRED): Direct `PaymentRequired`
 * object, 2. `content[0].text` (REQUIRED): JSON-encoded string of the same `PaymentRequired` object. Both fields contain
 * identical data - `content[0].text` is simply `JSON.stringify(structuredContent)` for clients that cannot access
 * structured content."
 *
 * "Check if `result.structuredContent` exists and contains `x402Version` and `accepts` fields. If not, parse
 * `result.content[0].text` as JSON and check for the same fields."
 *
 * "When payment settlement fails, […] the response follows the same format as Payment Required Signaling." "The server
 * sends `SettlementResponse` in `result._meta["x402/payment-response"]`."
 */

export interface ToolResult {
  readonly isError?: boolean
  readonly content: readonly { readonly type: string; readonly text?: string; readonly uri?: string }[]
  readonly structuredContent?: Readonly<Record<string, unknown>>
  /** `_meta` of the result. */
  readonly meta: Readonly<Record<string, unknown>>
}

/** A paid call: its result, the settlement and every call that was made. */
export interface PaidToolCall {
  readonly result: ToolResult
  readonly settlement: SettleResponse | undefined
  readonly payment: PaymentPayload | undefined
  readonly calls: number
}

export interface X402McpClient {
  /** Calls a tool once, without paying. */
  call(name: string, args: object, meta?: Readonly<Record<string, unknown>>): Promise<ToolResult>
  /** Calls a tool and pays for it if it asks for that. Throws when a result has another form than the page demands. */
  pay(name: string, args: object): Promise<PaidToolCall>
  /** Signs a challenge anew. */
  sign(required: PaymentRequired): Promise<PaymentPayload>
}

interface ClientOptions {
  readonly url: string
  readonly privateKey: `0x${string}`
  readonly rpcUrl: string
  readonly network: string
  /** The part of results that the client can access; by default both, and it demands that they are identical. */
  readonly reads?: 'both' | 'structuredContent' | 'text'
  /** Whether payments repeat the extensions of their challenge, which the page's own example does not. */
  readonly sendsExtensions?: boolean
}

export function createX402McpClient(options: ClientOptions): X402McpClient {
  const { url, privateKey, rpcUrl, network, reads = 'both', sendsExtensions = true } = options
  const scheme = new UptoEvmScheme(privateKeyToAccount(privateKey), { rpcUrl })
  const payer = new x402Client().register(network as `${string}:${string}`, scheme)
  let id = 0

  const call: X402McpClient['call'] = async (name, args, meta) => {
    const params = { name, arguments: args, ...(meta && { _meta: meta }) }
    id += 1
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params }),
    })
    const text = await answer.text()
    const { result } = JSON.parse(text) as { readonly result?: ToolResult & { readonly _meta?: object } }
    if (!result) throw new Error(`no result, but ${answer.status} ${text}`)
    const { _meta: received, ...others } = result
    return { ...others, meta: { ...received } }
  }
  const sign: X402McpClient['sign'] = async (required) => {
    const { extensions, ...payment } = await payer.createPaymentPayload(required)
    return sendsExtensions && extensions ? { ...payment, extensions } : payment
  }

  return {
    call,
    sign,
    pay: async (name, args) => {
      const first = await call(name, args)
      const required = findPaymentRequired(first, reads)
      if (!required) return { result: first, settlement: undefined, payment: undefined, calls: 1 }
      const payment = await sign(required)
      const result = await call(name, args, { 'x402/payment': payment })
      return { result, settlement: settlementOf(result), payment, calls: 2 }
    },
  }
}

/**
 * Returns the challenge of a result, as a client finds it that can access this part; `null` when the result asks for no
 * payment. Throws, for `both`, unless the two parts are as the page demands.
 */
export function findPaymentRequired(
  { isError, structuredContent, content }: ToolResult,
  reads: NonNullable<ClientOptions['reads']> = 'both',
): PaymentRequired | null {
  if (isError !== true) return null
  const [first] = content
  const parsed = first?.type === 'text' ? parseJson(first.text ?? '') : undefined
  if (reads === 'text') return isPaymentRequired(parsed) ? parsed : null
  if (reads === 'structuredContent') return isPaymentRequired(structuredContent) ? structuredContent : null
  if (!isPaymentRequired(structuredContent) && !isPaymentRequired(parsed)) return null
  if (!isDeepStrictEqual(parsed, structuredContent) || first?.text !== JSON.stringify(structuredContent))
    throw new Error(`content[0].text is not JSON.stringify(structuredContent): ${first?.text?.slice(0, 200)}`)
  return isPaymentRequired(structuredContent) ? structuredContent : null
}

function isPaymentRequired(value: unknown): value is PaymentRequired {
  return typeof value === 'object' && value !== null && 'x402Version' in value && 'accepts' in value
}

/** Returns the SettlementResponse of a paid result, with the members that the core specification requires. */
function settlementOf({ isError, meta }: ToolResult): SettleResponse | undefined {
  const settlement = meta['x402/payment-response'] as Partial<SettleResponse> | undefined
  if (settlement === undefined && isError === true) return undefined
  const { success, transaction, network } = settlement ?? {}
  if (typeof success !== 'boolean' || typeof transaction !== 'string' || typeof network !== 'string')
    throw new Error(`no SettlementResponse, but ${JSON.stringify(settlement)}`)
  return settlement as SettleResponse
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
