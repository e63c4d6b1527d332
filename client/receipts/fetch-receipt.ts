import { askForJson, type ServiceAccess } from '../wire/ask-service.ts'
import type { Receipt } from '../wire/schemas.ts'
import { readReceipt } from './read-receipt.ts'

/** Fetches a receipt with its token. Throws `FareboxError`. */
export async function fetchReceipt(
  access: ServiceAccess & { readonly baseUrl: string },
  receiptId: string,
  receiptToken: string,
  { patienceMs, signal }: { readonly patienceMs?: number; readonly signal?: AbortSignal | undefined } = {},
): Promise<Receipt> {
  const url = new URL(`/v1/receipts/${encodeURIComponent(receiptId)}`, access.baseUrl).href
  const headers = { authorization: `Bearer ${receiptToken}` }
  const document = await askForJson<unknown>(access, url, { headers, patienceMs, signal })
  const receipt = readReceipt(document, url)
  // Another receipt must not stand in for this one.
  return receipt.id === receiptId ? receipt : readReceipt({ ...receipt, id: null }, url)
}
