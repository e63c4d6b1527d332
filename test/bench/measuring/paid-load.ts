import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'
import { Pool } from 'undici'
import { type CustomPayment, paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { inParallel } from './in-parallel.ts'
import { percentile } from './statistics.ts'

const PATH = '/v1/chat/completions'
/** More than any run spends. */
const PAYER_FUNDS_ATOMIC = 1_000_000_000n
/** A call may take as long as the service holds its connection. */
const PATIENCE_MS = 300_000

/** A request with its payment signed, ready to be sent. */
export interface SignedCall {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Creates funded payers that have approved Permit2, as regular payers do: a real load comes from many. */
export async function createPayers(rpcUrl: string, count: number): Promise<readonly Payer[]> {
  const payers: Payer[] = []
  // Sequentially, because all are funded from one account.
  while (payers.length < count)
    payers.push(await createPayer(rpcUrl, { usdcAtomic: PAYER_FUNDS_ATOMIC, approved: true }))
  return payers
}

/**
 * Requests and signs the prices of `count` chats, so that the clients' share of the work is done before the clock
 * starts.
 */
export async function signCalls(
  baseUrl: string,
  payers: readonly Payer[],
  count: number,
): Promise<readonly SignedCall[]> {
  const calls: SignedCall[] = []
  const client = openClient(baseUrl, 8)
  try {
    await inParallel(Array.from({ length: count }), 8, async (_, index) => {
      const payer = payers[index % payers.length]
      if (!payer) throw new Error('there are no payers')
      const idempotencyKey = randomUUID()
      const unpaid = newCall(idempotencyKey)
      const { statusCode, headers, body } = await send(client, unpaid)
      const text = await body.text()
      if (statusCode !== 402) throw new Error(`no challenge, but ${statusCode} ${text}`)
      const required = decodePaymentRequiredHeader(String(headers['payment-required']))
      const payment: CustomPayment = await signCustomPayment(required, payer)
      calls.push({ ...unpaid, headers: { ...unpaid.headers, ...paymentHeader(payment) } })
    })
  } finally {
    await client.close()
  }
  return calls
}

/** Returns a small, unique chat. */
export function newCall(idempotencyKey: string): SignedCall {
  const messages = [{ role: 'user', content: `Repeat the name of this call: ${idempotencyKey}` }]
  return {
    headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey },
    body: JSON.stringify({ model: 'textmodel-2.5-flash', max_tokens: 40, messages }),
  }
}

export interface LoadResult {
  /** The number of calls answered with a paid result. */
  readonly paid: number
  /** Answers of the other calls. */
  readonly failures: readonly string[]
  readonly seconds: number
  readonly latenciesMs: readonly number[]
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Called for each paid answer once it was read completely; both times are in Unix milliseconds. */
export type OnPaid = (call: SignedCall, times: { readonly sentAt: number; readonly receivedAt: number }) => void

export interface LoadOptions {
  readonly onPaid?: OnPaid
  /** Sends a call each time this interval has passed, as long as fewer than `concurrency` are in progress. */
  readonly everyMs?: number
}

/** Sends all calls, at most `concurrency` at a time, and throws unless each is answered with a paid result. */
export async function payAll(...parameters: Parameters<typeof payAny>): Promise<LoadResult> {
  const load = await payAny(...parameters)
  const [failure] = load.failures
  if (failure !== undefined) throw new Error(`${load.failures.length} paid calls failed; the first: ${failure}`)
  return load
}

/** Sends all calls, at most `concurrency` at a time. Rates and latencies include only paid calls. */
export async function payAny(
  baseUrl: string,
  calls: readonly SignedCall[],
  concurrency: number,
  { onPaid, everyMs = 0 }: LoadOptions = {},
): Promise<LoadResult> {
  const client = openClient(baseUrl, concurrency)
  const latenciesMs: number[] = []
  const failures: string[] = []
  const startedAt = performance.now()
  try {
    await inParallel(calls, concurrency, async (call, index) => {
      if (everyMs > 0) await delay(Math.max(0, startedAt + index * everyMs - performance.now()))
      const sentAt = unixMs()
      const { statusCode, headers, body } = await send(client, call)
      const text = await body.text()
      const receivedAt = unixMs()
      const proof = readProof(headers['payment-response'])
      if (statusCode !== 200 || proof?.success !== true || proof.transaction === '')
        return failures.push(`${statusCode} ${text} ${JSON.stringify(proof)}`)
      latenciesMs.push(receivedAt - sentAt)
      return onPaid?.(call, { sentAt, receivedAt })
    })
  } finally {
    await client.destroy()
  }
  const seconds = (performance.now() - startedAt) / 1000
  return {
    paid: latenciesMs.length,
    failures,
    seconds,
    latenciesMs,
    perSecond: latenciesMs.length / seconds,
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
  }
}

function readProof(header: string | string[] | undefined) {
  return typeof header === 'string' ? decodePaymentResponseHeader(header) : undefined
}

/** Returns the time with a finer resolution than `Date.now()`. */
const unixMs = () => performance.timeOrigin + performance.now()

/** Opens one connection per concurrent call, without pipelining. undici's own client uses the least processor time. */
function openClient(baseUrl: string, connections: number): Pool {
  return new Pool(baseUrl, { connections, pipelining: 1, headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS })
}

function send(client: Pool, { headers, body }: SignedCall) {
  return client.request({ method: 'POST', path: PATH, headers, body })
}
