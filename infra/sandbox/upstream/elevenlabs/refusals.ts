import { randomUUID } from 'node:crypto'
import type { VendorAnswer } from '../vendor-route.ts'

/**
 * Returns a refusal in the vendor's error shape; `status` is the older name of `code` and still sent.
 * Source: elevenlabs.io/docs/eleven-api/resources/errors
 */
export function refusal(status: number, type: string, code: string, message: string): VendorAnswer {
  const request_id = randomUUID().replaceAll('-', '')
  return { status, body: { detail: { type, code, message, status: code, request_id } } }
}

export function invalid(code: string, message: string): VendorAnswer {
  return refusal(400, 'validation_error', code, message)
}

/** Returns a 422 like the vendor's framework for a field; `input` quotes the value. */
export function invalidField(field: string, type: string, msg: string, input: string | null = null): VendorAnswer {
  return { status: 422, body: { detail: [{ type, loc: ['body', field], msg, input }] } }
}

/** Refuses a request without `xi-api-key`, or with any key except the accepted one. */
export function refuseKey(headers: Headers, apiKey: string | undefined): VendorAnswer | undefined {
  const given = headers.get('xi-api-key') ?? ''
  if (given === '')
    return refusal(401, 'authentication_error', 'needs_authorization', 'The request has no xi-api-key header.')
  if (apiKey === undefined || given === apiKey) return undefined
  return refusal(401, 'authentication_error', 'invalid_api_key', 'Invalid API key')
}
