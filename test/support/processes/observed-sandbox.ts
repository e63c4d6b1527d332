import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import { type SharedSandbox, useSharedSandbox } from './test-sandbox.ts'

/** One answer of the service as it came over the wire, even when the caller never saw it. */
export interface ObservedAnswer {
  readonly method: string
  readonly path: string
  readonly status: number
  readonly headers: Headers
  readonly body: Buffer
  /** The idempotency key of the request, which SDK retries must repeat. */
  readonly idempotencyKey: string | null
  /** The payment in the header of the request. */
  readonly payment: string | null
}

/** The effects of one client call. */
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

/** The shared sandbox with the official paying x402 `fetch` and a record of every answer underneath it. */
export interface ObservedSandbox extends SharedSandbox {
  /** The `fetch` that clients get; it pays for their calls: the official x402 one, or that of `payThrough`. */
  readonly payingFetch: typeof globalThis.fetch
  /** Sends without paying; its answers are recorded too. */
  readonly observingFetch: typeof globalThis.fetch
  /** All answers so far. */
  readonly answers: readonly ObservedAnswer[]
  /** Drops the next answer to a signed request, as a broken connection would. */
  loseNextPaidAnswer(): void
  /** Runs one call and records its effects. Calls must not overlap. */
  observe<T>(call: () => Promise<T>): Promise<Observation<T>>
  /** Lets another `fetch` pay for the calls of existing clients while `use` runs. */
  payThrough<T>(fetch: typeof globalThis.fetch, use: () => Promise<T>): Promise<T>
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
    // The openai SDK probes `fetch` with a data URL.
    if (!request.url.startsWith(sandbox.info.baseUrl)) return response
    answers.push(await readAnswer(request, response.clone()))
    if (!isLosing || !request.headers.has('payment-signature')) return response
    isLosing = false
    throw new TypeError('fetch failed', { cause: new Error('the connection was cut') })
  }
  const count = async () => ({
    upstreamCalls: (await sandbox.upstreamCalls()).length,
    transfers: (await sandbox.chain.transfersTo(sandbox.info.payTo)).length,
  })
  const officialFetch = createPayingClient({ privateKey, rpcUrl, network, fetch: observingFetch }).fetch
  let payingFetch = officialFetch
  return {
    ...sandbox,
    answers,
    observingFetch,
    payingFetch: (input, init) => payingFetch(input, init),
    payThrough: async (fetch, use) => {
      payingFetch = fetch
      try {
        return await use()
      } finally {
        payingFetch = officialFetch
      }
    },
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
    payment: request.headers.get('payment-signature'),
  }
}
