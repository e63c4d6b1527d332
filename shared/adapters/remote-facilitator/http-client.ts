import { HTTPFacilitatorClient } from '@x402/core/http'

export interface RemoteFacilitatorOptions {
  readonly url: string
  /** Sent as a bearer token. */
  readonly apiKey: string | undefined
}

/** The protocol's own client. A request that takes longer than `timeoutMs` throws, and its outcome is unknown. */
export function createHttpClient({ url, apiKey }: RemoteFacilitatorOptions, timeoutMs: number): HTTPFacilitatorClient {
  if (apiKey === undefined) return new HTTPFacilitatorClient({ url, timeoutMs })
  const headers = { authorization: `Bearer ${apiKey}` }
  const createAuthHeaders = async () => ({ verify: headers, settle: headers, supported: headers })
  return new HTTPFacilitatorClient({ url, timeoutMs, createAuthHeaders })
}
