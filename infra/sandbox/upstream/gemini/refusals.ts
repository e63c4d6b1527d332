import type { VendorAnswer } from '../vendor-route.ts'

/** Returns a refusal in Google's error shape. Source: google.aip.dev/193 and ai.google.dev/gemini-api/docs/troubleshooting */
export function refusal(status: number, name: string, message: string, reason?: string): VendorAnswer {
  const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'googleapis.com' }
  const details = reason === undefined ? {} : { details: [info] }
  return { status, accepted: false, body: { error: { code: status, message, status: name, ...details } } }
}
