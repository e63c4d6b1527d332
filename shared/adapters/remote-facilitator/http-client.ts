import { FacilitatorTimeoutError, HTTPFacilitatorClient } from '@x402/core/http'
import { SettleError, VerifyError } from '@x402/core/types'
import { loggableReason } from './refusals.ts'

export interface RemoteFacilitatorOptions {
  readonly url: string
  /** Sent as a bearer token. */
  readonly apiKey: string | undefined
}

/** Creates the x402 SDK's client. A request that takes longer than `timeoutMs` throws, and its outcome is unknown. */
export function createHttpClient({ url, apiKey }: RemoteFacilitatorOptions, timeoutMs: number): HTTPFacilitatorClient {
  if (apiKey === undefined) return new HTTPFacilitatorClient({ url, timeoutMs })
  const headers = { authorization: `Bearer ${apiKey}` }
  const createAuthHeaders = async () => ({ verify: headers, settle: headers, supported: headers })
  return new HTTPFacilitatorClient({ url, timeoutMs, createAuthHeaders })
}

/** Describes a failure without quoting the response, which may contain the URL of the facilitator's node. */
export function failureOf(cause: unknown): Error {
  if (cause instanceof FacilitatorTimeoutError) return new Error('the facilitator did not answer in time')
  if (cause instanceof SettleError)
    return new Error(`the facilitator failed with ${cause.statusCode}: ${loggableReason(cause.errorReason)}`)
  if (cause instanceof VerifyError)
    return new Error(`the facilitator failed with ${cause.statusCode}: ${loggableReason(cause.invalidReason)}`)
  const status = cause instanceof Error ? statusOf(cause) : undefined
  if (status !== undefined) return new Error(`the facilitator failed with ${status}`)
  return new Error('the facilitator cannot be reached, or its response is not x402')
}

/** Returns the status of an answer that the SDK's client threw; `undefined` for any other error. */
export function statusOf({ message }: Error): number | undefined {
  const [, status] = /failed \((\d{3})\)/.exec(message) ?? []
  return status === undefined ? undefined : Number(status)
}
