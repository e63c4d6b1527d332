import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

/** A payment as it went over the wire: what its signature lets be taken, and for whom. */
export interface TappedPayment {
  readonly key: string
  readonly path: string
  readonly nonce: string
  readonly token: string
  readonly spender: string
  readonly to: string
  readonly facilitator: string
  /** Atomic USDC. */
  readonly maximum: bigint
}

/** An answer of the service on its way through the tap. */
export interface TappedAnswer {
  readonly path: string
  readonly isPaid: boolean
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

export type AnswerChange = (answer: TappedAnswer) => TappedAnswer | null | Promise<TappedAnswer | null>

export interface PaymentTap {
  readonly url: string
  /** Each signed payment once, in the order of arrival, however often it was sent. */
  readonly payments: readonly TappedPayment[]
  /** All requests, as `POST /v1/quotes`. */
  readonly requests: readonly string[]
  /** Replaces or delays answers from now on; without it they pass unchanged. `null` breaks the connection. */
  alter(change: AnswerChange | undefined): void
  stop(): Promise<void>
}

/** Starts a proxy in front of a service that reads the payments which pass through it. */
export async function startPaymentTap(targetUrl: string): Promise<PaymentTap> {
  const target = new URL(targetUrl)
  const payments = new Map<string, TappedPayment>()
  const requests: string[] = []
  let change: AnswerChange | undefined
  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const path = new URL(incoming.url ?? '/', target).pathname
    requests.push(`${incoming.method} ${path}`)
    const body = await buffer(incoming)
    const payment = paymentIn(incoming, path)
    if (payment !== undefined) payments.set(payment.nonce, payment)
    const passed = await pass(target, incoming, body)
    const answer = { path, isPaid: payment !== undefined, ...passed }
    const altered = change === undefined ? answer : await change(answer)
    if (altered === null) outgoing.socket?.resetAndDestroy()
    else outgoing.writeHead(altered.status, withLength(altered)).end(altered.body)
  }
  const server = createServer((incoming, outgoing) => void handle(incoming, outgoing).catch(() => outgoing.destroy()))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get payments() {
      return [...payments.values()]
    },
    requests,
    alter: (next) => {
      change = next
    },
    stop: async () => {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

/** Returns the challenge of a 402 with other terms, as a dishonest service would send it. */
export function withTerms(answer: TappedAnswer, changes: Readonly<Record<string, unknown>>): TappedAnswer {
  const header = answer.headers['payment-required']
  if (typeof header !== 'string') return answer
  const required = JSON.parse(Buffer.from(header, 'base64').toString()) as { accepts: Record<string, unknown>[] }
  const changed = { ...required, accepts: required.accepts.map((terms) => ({ ...terms, ...changes })) }
  return {
    ...answer,
    headers: { ...answer.headers, 'payment-required': Buffer.from(JSON.stringify(changed)).toString('base64') },
  }
}

function paymentIn({ headers }: IncomingMessage, path: string): TappedPayment | undefined {
  const header = headers['payment-signature']
  if (typeof header !== 'string') return undefined
  const { payload } = JSON.parse(Buffer.from(header, 'base64').toString()) as SignedPayment
  const { nonce, permitted, spender, witness } = payload.permit2Authorization
  return {
    key: String(headers['x-idempotency-key']),
    path,
    nonce,
    token: permitted.token.toLowerCase(),
    spender: spender.toLowerCase(),
    to: witness.to.toLowerCase(),
    facilitator: witness.facilitator.toLowerCase(),
    maximum: BigInt(permitted.amount),
  }
}

interface SignedPayment {
  readonly payload: {
    readonly permit2Authorization: {
      readonly nonce: string
      readonly spender: string
      readonly permitted: { readonly amount: string; readonly token: string }
      readonly witness: { readonly to: string; readonly facilitator: string }
    }
  }
}

function pass(
  target: URL,
  { method, url, headers }: IncomingMessage,
  body: Buffer,
): Promise<Pick<TappedAnswer, 'status' | 'headers' | 'body'>> {
  return new Promise((resolve, reject) => {
    const { 'transfer-encoding': _, expect: __, ...kept } = headers
    const length = body.length > 0 ? { 'content-length': String(body.length) } : {}
    const options = { method, headers: { ...kept, ...length, host: target.host }, agent: false }
    const outgoing = request(new URL(url ?? '/', target), options, (answer) => {
      buffer(answer).then(
        (read) => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: read }),
        reject,
      )
    })
    outgoing.on('error', reject).end(body)
  })
}

function withLength({ headers, body }: TappedAnswer): Record<string, string | string[]> {
  const { 'transfer-encoding': _, connection: __, ...kept } = headers
  return { ...(kept as Record<string, string>), 'content-length': String(body.length) }
}
