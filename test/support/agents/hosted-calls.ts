import type { PaymentRequired } from '@x402/core/types'
import type { PayingClient } from '../../../infra/sandbox/paying-client.ts'
import { type Message, messageIn, type ToolAnswer, toolAnswer } from './mcp-process.ts'

const HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': '2025-06-18',
}

export const KEY_META = 'farebox/idempotency-key'
export const PAYMENT_META = 'x402/payment'

/** An answer of the hosted server. */
export interface HostedAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The messages in it, of either form of the answer. */
  readonly messages: readonly Message[]
}

/** Sends a body to the hosted server as it is. */
export async function postMcp(
  baseUrl: string,
  body: string | Uint8Array<ArrayBuffer> | object,
  headers: Readonly<Record<string, string>> = {},
): Promise<HostedAnswer> {
  const sent = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
  const answer = await fetch(`${baseUrl}/mcp`, { method: 'POST', headers: { ...HEADERS, ...headers }, body: sent })
  const text = await answer.text()
  return { status: answer.status, headers: answer.headers, text, messages: messagesIn(text) }
}

/** Calls a tool of the hosted server. Throws when the answer is not that of a tool. */
export async function callHosted(
  baseUrl: string,
  name: string,
  args: object,
  meta: Readonly<Record<string, unknown>> = {},
): Promise<ToolAnswer> {
  const params = { name, arguments: args, _meta: meta }
  const { status, text, messages } = await postMcp(baseUrl, { jsonrpc: '2.0', id: 1, method: 'tools/call', params })
  const answer = messages.find(({ id }) => id === 1)
  if (answer === undefined) throw new Error(`no answer of a tool, but ${status} ${text.slice(0, 500)}`)
  return toolAnswer(answer)
}

/** A call with everything that its caller repeats it with. */
export interface PaidHostedCall {
  readonly name: string
  readonly args: object
  readonly meta: Readonly<Record<string, unknown>>
}

/** Calls a tool without a payment and signs the challenge, with the official signer. */
export async function signHosted(
  baseUrl: string,
  payer: Pick<PayingClient, 'sign'>,
  name: string,
  args: object,
): Promise<PaidHostedCall & { readonly challenge: PaymentRequired }> {
  const key = crypto.randomUUID()
  const challenge = challengeIn(await callHosted(baseUrl, name, args, { [KEY_META]: key }))
  const payment = await signChallenge(payer, challenge)
  return { name, args, meta: { [KEY_META]: key, [PAYMENT_META]: payment }, challenge }
}

/** Signs a challenge with the official client, which reads it from a header. */
async function signChallenge(payer: Pick<PayingClient, 'sign'>, challenge: PaymentRequired): Promise<object> {
  const header = Buffer.from(JSON.stringify(challenge)).toString('base64')
  const signed = await payer.sign(new Response(null, { status: 402, headers: { 'payment-required': header } }))
  return JSON.parse(Buffer.from(Object.values(signed)[0] ?? '', 'base64').toString()) as object
}

export function payHosted(baseUrl: string, { name, args, meta }: PaidHostedCall): Promise<ToolAnswer> {
  return callHosted(baseUrl, name, args, meta)
}

/** Returns the challenge of an unpaid call, as the protocol's page says where it is. */
export function challengeIn({ isError, structuredContent }: ToolAnswer): PaymentRequired {
  if (isError !== true || structuredContent?.['x402Version'] !== 2)
    throw new Error(`no challenge, but ${JSON.stringify(structuredContent).slice(0, 500)}`)
  return structuredContent as unknown as PaymentRequired
}

/** Returns the code of a failed call: of an error, or of a refused payment with its new challenge. */
export function codeOf({ structuredContent }: ToolAnswer): string {
  const error = structuredContent?.error
  return String(typeof error === 'object' ? error.code : error)
}

function messagesIn(text: string): readonly Message[] {
  const lines = text.startsWith('{') || text.startsWith('[') ? [text] : eventLines(text)
  return lines.flatMap((line) => messageIn(line) ?? [])
}

function eventLines(text: string): readonly string[] {
  return text.split('\n').flatMap((line) => (line.startsWith('data:') ? [line.slice(5).trim()] : []))
}
