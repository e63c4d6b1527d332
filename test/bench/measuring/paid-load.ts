import { randomUUID } from 'node:crypto'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'
import { Pool } from 'undici'
import {
  type CustomPayment,
  createPayer,
  paymentHeader,
  signCustomPayment,
  type TestPayer,
} from '../../support/payer/custom-payment.ts'
import { inParallel } from './in-parallel.ts'
import { percentile } from './statistics.ts'

const PATH = '/v1/chat/completions'
/** More than any run spends. */
const PAYER_FUNDS_ATOMIC = 1_000_000_000n
/** A held call may take as long as the service holds it. */
const PATIENCE_MS = 300_000

/** A request with its payment signed, ready to be sent. */
export interface SignedCall {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Funded accounts that have approved Permit2: a real load comes from many, and regular payers approve once. */
export async function createPayers(rpcUrl: string, count: number): Promise<readonly TestPayer[]> {
  const payers: TestPayer[] = []
  // One by one: all are funded from one account.
  while (payers.length < count)
    payers.push(await createPayer(rpcUrl, { usdcAtomic: PAYER_FUNDS_ATOMIC, approved: true }))
  return payers
}

/** Asks for the price of so many chats and signs each of them, so that the clients' share of the work comes before the clock starts. */
export async function signCalls(
  baseUrl: string,
  payers: readonly TestPayer[],
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

/** A small chat that no other one equals. */
export function newCall(idempotencyKey: string): SignedCall {
  const messages = [{ role: 'user', content: `Repeat the name of this call: ${idempotencyKey}` }]
  return {
    headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey },
    body: JSON.stringify({ model: 'textmodel-2.5-flash', max_tokens: 40, messages }),
  }
}

export interface LoadResult {
  /** Answered with a paid result. */
  readonly paid: number
  /** What the other calls were answered with. */
  readonly failures: readonly string[]
  readonly seconds: number
  readonly latenciesMs: readonly number[]
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Told of each paid answer at the moment when it was read whole; both times in Unix milliseconds. */
export type OnPaid = (call: SignedCall, times: { readonly sentAt: number; readonly receivedAt: number }) => void

/** Sends all calls, so many at once, and throws unless each of them is answered with a paid result. */
export async function payAll(...parameters: Parameters<typeof payWhatCan>): Promise<LoadResult> {
  const load = await payWhatCan(...parameters)
  const [failure] = load.failures
  if (failure !== undefined) throw new Error(`${load.failures.length} paid calls failed, such as: ${failure}`)
  return load
}

/** Sends all calls, so many at once. Rates and latencies are those of the paid ones. */
export async function payWhatCan(
  baseUrl: string,
  calls: readonly SignedCall[],
  concurrency: number,
  onPaid?: OnPaid,
): Promise<LoadResult> {
  const client = openClient(baseUrl, concurrency)
  const latenciesMs: number[] = []
  const failures: string[] = []
  const startedAt = performance.now()
  try {
    await inParallel(calls, concurrency, async (call) => {
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

/** Finer than `Date.now()`. */
const unixMs = () => performance.timeOrigin + performance.now()

/** One connection for each call at once, without pipelining. undici's own client costs least of the load's processor time. */
function openClient(baseUrl: string, connections: number): Pool {
  return new Pool(baseUrl, { connections, pipelining: 1, headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS })
}

function send(client: Pool, { headers, body }: SignedCall) {
  return client.request({ method: 'POST', path: PATH, headers, body })
}
