import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'

const SDKS = new URL('../../sdks/package.json', import.meta.url)

/** Throws with what to do where the servers and tools that farebox is measured with are not installed. */
export function requireSdkPackages(): void {
  if (!existsSync(new URL('node_modules', SDKS)))
    throw new Error('This measurement needs packages of test/sdks: run npm ci --prefix test/sdks')
}

/** The part of autocannon's options that the measurements set. */
interface Load {
  readonly url: string
  readonly connections: number
  /** In seconds. */
  readonly duration?: number
  /** How many requests to send, instead of a duration. */
  readonly amount?: number
  readonly method?: 'POST'
  readonly requests?: readonly { readonly setupRequest: (request: object) => object }[]
}

interface LoadResult {
  readonly duration: number
  readonly errors: number
  readonly non2xx: number
  readonly requests: { readonly total: number }
  readonly throughput: { readonly total: number }
  readonly latency: { readonly p50: number; readonly p99: number }
  readonly statusCodeStats?: Readonly<Record<string, { readonly count: number }>>
}

/** Sends requests with autocannon, over as many connections as given. */
export async function sendLoad(load: Load): Promise<LoadResult> {
  requireSdkPackages()
  const autocannon = createRequire(SDKS)('autocannon') as (load: Load) => PromiseLike<LoadResult>
  return await autocannon(load)
}
