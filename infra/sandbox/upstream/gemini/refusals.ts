import type { VendorAnswer } from '../vendor-route.ts'

/** Returns a refusal in Google's error shape. Source: google.aip.dev/193 and ai.google.dev/gemini-api/docs/troubleshooting */
export function refusal(status: number, name: string, message: string, reason?: string): VendorAnswer {
  const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'googleapis.com' }
  const details = reason === undefined ? {} : { details: [info] }
  return { status, body: { error: { code: status, message, status: name, ...details } } }
}

/** Refuses a request without a key, or with any except the accepted one. */
export function refuseKey(headers: Headers, apiKey: string | undefined): VendorAnswer | undefined {
  const given = headers.get('x-goog-api-key') ?? ''
  if (given === '') return refusal(403, 'PERMISSION_DENIED', "Method doesn't allow unregistered callers.")
  if (apiKey === undefined || given === apiKey) return undefined
  return refusal(400, 'INVALID_ARGUMENT', 'API key not valid. Please pass a valid API key.', 'API_KEY_INVALID')
}
