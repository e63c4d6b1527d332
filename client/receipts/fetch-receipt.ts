import { askForJson, type FreeRequest, type ServiceAccess } from '../wire/ask-service.ts'
import type { Receipt } from '../wire/schemas.ts'
import { readReceipt } from './read-receipt.ts'

/** A result that is paid for waits for the check of its receipt, so not for long. */
export const CHECK_WAITS: Pick<FreeRequest, 'patienceMs' | 'timeoutMs'> = { patienceMs: 5000, timeoutMs: 10_000 }

/** Fetches a receipt with its token. Throws `FareboxError`. */
export async function fetchReceipt(
  access: ServiceAccess & { readonly baseUrl: string },
  receiptId: string,
  receiptToken: string,
  options: Pick<FreeRequest, 'patienceMs' | 'timeoutMs' | 'signal'> = {},
): Promise<Receipt> {
  const url = new URL(`/v1/receipts/${encodeURIComponent(receiptId)}`, access.baseUrl).href
  const headers = { authorization: `Bearer ${receiptToken}` }
  const document = await askForJson<unknown>(access, url, { ...options, headers })
  const receipt = readReceipt(document, url)
  // Another receipt must not stand in for this one.
  return receipt.id === receiptId ? receipt : readReceipt({ ...receipt, id: null }, url)
}
