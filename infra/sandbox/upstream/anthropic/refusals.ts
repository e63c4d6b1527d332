import { randomUUID } from 'node:crypto'
import type { VendorAnswer } from '../vendor-route.ts'

/** Returns a refusal in the vendor's error shape. Source: platform.claude.com/docs/en/api/errors */
export function refusal(status: number, type: string, message: string): VendorAnswer {
  const requestId = `req_${randomUUID().replaceAll('-', '')}`
  return { status, accepted: false, body: { type: 'error', error: { type, message }, request_id: requestId } }
}
