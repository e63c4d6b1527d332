import { randomUUID } from 'node:crypto'
import type { VendorAnswer } from '../vendor-route.ts'

/** Returns a refusal in the vendor's error shape. Source: platform.claude.com/docs/en/api/errors */
export function refusal(status: number, type: string, message: string): VendorAnswer {
  const requestId = `req_${randomUUID().replaceAll('-', '')}`
  return { status, body: { type: 'error', error: { type, message }, request_id: requestId } }
}

/** Refuses a request without key or version, or with a wrong one. */
export function refuseKey(headers: Headers, apiKey: string | undefined): VendorAnswer | undefined {
  // The current SDK sends the key as a bearer token.
  const bearer = /^Bearer (.+)$/.exec(headers.get('authorization') ?? '')?.[1]
  const given = headers.get('x-api-key') ?? bearer ?? ''
  if (given === '') return refusal(401, 'authentication_error', 'x-api-key header is required')
  if (apiKey !== undefined && given !== apiKey) return refusal(401, 'authentication_error', 'invalid x-api-key')
  if (VERSIONS.has(headers.get('anthropic-version') ?? '')) return undefined
  return refusal(400, 'invalid_request_error', 'anthropic-version: header is required')
}

/** Source: platform.claude.com/docs/en/api/versioning */
const VERSIONS: ReadonlySet<string> = new Set(['2023-06-01', '2026-10-21'])
