import { x402Client } from '@x402/core/client'
import type { PaymentPayload, PaymentRequired, SettleResponse } from '@x402/core/types'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { privateKeyToAccount } from 'viem/accounts'

/*
 * A client written from the page of the x402 specification about MCP (specs/transports-v2/mcp.md) and from nothing of
 * farebox: it knows JSON-RPC, the names of that page and the official signer.
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
  /** Calls a tool and pays for it if it asks for that. */
  pay(name: string, args: object): Promise<PaidToolCall>
}

interface ClientOptions {
  readonly url: string
  readonly privateKey: `0x${string}`
  readonly rpcUrl: string
  readonly network: string
}

export function createX402McpClient({ url, privateKey, rpcUrl, network }: ClientOptions): X402McpClient {
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

  return {
    call,
    pay: async (name, args) => {
      const first = await call(name, args)
      const required = findPaymentRequired(first)
      if (!required) return { result: first, settlement: undefined, payment: undefined, calls: 1 }
      const payment = await payer.createPaymentPayload(required)
      const result = await call(name, args, { 'x402/payment': payment })
      return { result, settlement: result.meta['x402/payment-response'] as SettleResponse, payment, calls: 2 }
    },
  }
}

/** Looks for the challenge in the order that the page demands of clients. */
function findPaymentRequired({ isError, structuredContent, content }: ToolResult): PaymentRequired | null {
  if (!isError) return null
  const [first] = content
  const wrapped = structuredContent?.['x402/error'] as { readonly data?: unknown } | undefined
  const parsed = parseObject(first?.text ?? '')
  const wrappedText = parsed['x402/error'] as { readonly data?: unknown } | undefined
  const found = [structuredContent, wrapped?.data, parsed, wrappedText?.data].find(isPaymentRequired)
  return found ?? null
}

function isPaymentRequired(value: unknown): value is PaymentRequired {
  return typeof value === 'object' && value !== null && 'x402Version' in value && 'accepts' in value
}

function parseObject(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return {}
  }
}
