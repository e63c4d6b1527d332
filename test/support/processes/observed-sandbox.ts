import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import { type SharedSandbox, useSharedSandbox } from './test-sandbox.ts'

/** One answer of the service as it came over the wire, also when the caller never saw it. */
export interface ObservedAnswer {
  readonly method: string
  readonly path: string
  readonly status: number
  readonly headers: Headers
  readonly body: Buffer
  /** The key that the request carried; SDK retries must repeat it. */
  readonly idempotencyKey: string | null
}

/** What happened while one call of a client ran. */
export interface Observation<T> {
  /** Absent when the call threw. */
  readonly value?: T
  readonly error?: unknown
  readonly answers: readonly ObservedAnswer[]
  readonly statuses: readonly number[]
  readonly upstreamCalls: number
  /** USDC transfers to the recipient. */
  readonly transfers: number
}

/** The shared sandbox, paid through the official x402 `fetch`, with a record of every answer below it. */
export interface ObservedSandbox extends SharedSandbox {
  /** All that a client gets of payment. */
  readonly payingFetch: typeof globalThis.fetch
  /** Sends without paying; its answers are on record too. */
  readonly observingFetch: typeof globalThis.fetch
  /** Every answer so far. */
  readonly answers: readonly ObservedAnswer[]
  /** Loses the answer to the next signed request, after the service has given it, as a cut connection would. */
  loseNextPaidAnswer(): void
  /** Runs one call and counts what it caused. Calls must not overlap. */
  observe<T>(call: () => Promise<T>): Promise<Observation<T>>
}

export async function useObservedSandbox(): Promise<ObservedSandbox> {
  const sandbox = await useSharedSandbox()
  const { privateKey } = sandbox.info.payer
  const { rpcUrl, network } = sandbox.info
  const answers: ObservedAnswer[] = []
  let isLosing = false
  const observingFetch: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init)
    const response = await fetch(request)
    // The openai SDK tries out `fetch` on a data URL.
    if (!request.url.startsWith(sandbox.info.baseUrl)) return response
    answers.push(await readAnswer(request, response.clone()))
    if (!isLosing || !request.headers.has('payment-signature')) return response
    isLosing = false
    throw new TypeError('fetch failed', { cause: new Error('the connection was cut') })
  }
  const count = async () => ({
    upstreamCalls: (await sandbox.upstreamCalls()).length,
    transfers: (await sandbox.chain.transfersTo(sandbox.info.payTo as `0x${string}`)).length,
  })
  return {
    ...sandbox,
    answers,
    observingFetch,
    payingFetch: createPayingClient({ privateKey, rpcUrl, network, fetch: observingFetch }).fetch,
    loseNextPaidAnswer: () => {
      isLosing = true
    },
    async observe<T>(call: () => Promise<T>) {
      const before = await count()
      const first = answers.length
      const outcome = await call().then(
        (value) => ({ value }),
        (error: unknown) => ({ error }),
      )
      isLosing = false
      const after = await count()
      const seen = answers.slice(first)
      return {
        ...outcome,
        answers: seen,
        statuses: seen.map(({ status }) => status),
        upstreamCalls: after.upstreamCalls - before.upstreamCalls,
        transfers: after.transfers - before.transfers,
      }
    },
  }
}

async function readAnswer(request: Request, response: Response): Promise<ObservedAnswer> {
  return {
    method: request.method,
    path: new URL(request.url).pathname,
    status: response.status,
    headers: response.headers,
    body: Buffer.from(await response.arrayBuffer()),
    idempotencyKey: request.headers.get('x-idempotency-key'),
  }
}
