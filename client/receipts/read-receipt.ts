import { askForJson, type FreeRequest, type ServiceAccess } from '../wire/ask-service.ts'
import { type FareboxError, uncharged } from '../wire/farebox-error.ts'
import { isObject } from '../wire/json.ts'
import type { Receipt } from '../wire/schemas.ts'

/** A result that is paid for waits for the check of its receipt, so not for long. */
export const CHECK_WAITS: Pick<FreeRequest, 'patienceMs' | 'timeoutMs'> = { patienceMs: 5000, timeoutMs: 10_000 }

type Form = 'text' | 'digits' | 'address' | 'object'

/** The members that are checked. Others may be added by later versions of the service. */
const FORMS: Readonly<Partial<Record<keyof Receipt, Form>>> = {
  id: 'text',
  operation: 'text',
  model: 'text',
  usage: 'object',
  unit_prices: 'object',
  quoted_maximum_atomic: 'digits',
  authorized_maximum_atomic: 'digits',
  charge_atomic: 'digits',
  charge_usdc: 'text',
  payer: 'address',
  pay_to: 'address',
  network: 'text',
  asset: 'address',
  transaction: 'text',
  block_number: 'digits',
  result_digest: 'text',
  issued_at: 'text',
  signature: 'text',
}

const IS_OF: Readonly<Record<Form, (value: unknown) => boolean>> = {
  text: (value) => typeof value === 'string',
  digits: (value) => typeof value === 'string' && /^\d{1,40}$/.test(value),
  address: (value) => typeof value === 'string' && /^0x[0-9a-fA-F]{40}$/.test(value),
  object: isObject,
}

/** Checks that a value has the form of a receipt. `from` names its source in errors. Throws `FareboxError`. */
export function readReceipt(value: unknown, from: string): Receipt {
  if (!isObject(value) || value['object'] !== 'receipt') throw notAReceipt(from, 'object')
  for (const [name, form] of Object.entries(FORMS)) if (!IS_OF[form](value[name])) throw notAReceipt(from, name)
  const { settlement } = value
  if (settlement !== undefined && !isSettlement(settlement)) throw notAReceipt(from, 'settlement')
  return value as unknown as Receipt
}

function isSettlement(value: unknown): boolean {
  if (!isObject(value)) return false
  const { state, transaction, block_number: block } = value
  return IS_OF.text(state) && IS_OF.text(transaction) && IS_OF.digits(block)
}

function notAReceipt(from: string, field: string): FareboxError {
  return uncharged(
    'not_a_receipt',
    `${from} is not a receipt (its ${field} is missing or has another form).`,
    'Save the answer of GET /v1/receipts/{id} unchanged, or pass the id of a receipt.',
  )
}

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
