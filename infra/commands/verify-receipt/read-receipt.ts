import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { NothingToVerify } from '../check.ts'
import { fetchJson, messageOf } from './fetch-json.ts'

const digits = z.string().regex(/^\d+$/)
const hex = z.string().regex(/^0x[0-9a-f]*$/)

const lineSchema = z.looseObject({
  usage: z.string(),
  measured: z.int(),
  at_most: z.int().nullable(),
  quantity: digits,
  unit_price_usd: z.string(),
  per_units: digits,
  product_usd: z.string(),
})

/**
 * The fields of a receipt that are checked. Separate from the service's schema, because this command checks the
 * service's output; receipts of other versions are accepted as long as they contain these fields.
 */
const receiptSchema = z.looseObject({
  id: z.string(),
  object: z.literal('receipt'),
  model: z.string(),
  usage: z.record(z.string(), z.int().min(0)),
  unit_prices: z.record(z.string(), z.union([z.string(), z.int()])),
  catalog_version: z.string(),
  quoted_maximum_atomic: digits,
  authorized_maximum_atomic: digits,
  charge_atomic: digits,
  charge_usdc: z.string(),
  calculation: z
    .looseObject({
      lines: z.array(lineSchema),
      sum_usd: z.string(),
      rounded_atomic: digits,
      minimum_atomic: digits,
      maximum_atomic: digits,
      applied: z.string(),
      charge_atomic: digits,
    })
    .optional(),
  payer: hex,
  pay_to: hex,
  network: z.string(),
  asset: hex,
  transaction: z.string(),
  block_number: digits,
  result_digest: z.string(),
  settled_at: z.string(),
  settlement: z.looseObject({ state: z.string(), transaction: z.string(), block_number: digits }).optional(),
  signature: z.string().optional(),
})

export type GivenReceipt = z.infer<typeof receiptSchema>

/** A parsed receipt, and all of its fields except the signature, which signs them. */
export interface ReceiptToVerify {
  readonly receipt: GivenReceipt
  readonly signedFields: Readonly<Record<string, JsonValue>>
}

/** Reads a saved receipt. Throws `NothingToVerify`. */
export async function readReceiptFile(path: string): Promise<ReceiptToVerify> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new NothingToVerify(`${path} cannot be read (${messageOf(error)}). Pass the path of a saved receipt.`)
  })
  return parseReceipt(parseJson(text, path), path)
}

/** Fetches a receipt with its token. Throws `NothingToVerify`. */
export async function fetchReceipt(baseUrl: string, id: string, token: string): Promise<ReceiptToVerify> {
  const url = new URL(`/v1/receipts/${encodeURIComponent(id)}`, baseUrl).href
  const { status, body } = await fetchJson(url, { headers: { authorization: `Bearer ${token}` } }).catch(
    (error: unknown) => {
      throw new NothingToVerify(`${messageOf(error)}. Check --url, or save the receipt and pass it as --file.`)
    },
  )
  if (status === 404 || status === 401)
    throw new NothingToVerify(
      `${baseUrl} has no receipt with this id and token. Pass X-Receipt-ID as --id and X-Receipt-Token as --token, both from the same response.`,
    )
  if (status !== 200) throw new NothingToVerify(`${url} answered ${status}. Try again later.`)
  return parseReceipt(body, url)
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new NothingToVerify(`${path} is not JSON. Save the response of GET /v1/receipts/{id} unchanged.`)
  }
}

function parseReceipt(value: unknown, from: string): ReceiptToVerify {
  const parsed = receiptSchema.safeParse(value)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw new NothingToVerify(
      `${from} is not a receipt (${issue?.path.join('.') || 'the receipt'}: ${issue?.message ?? 'invalid'}).`,
    )
  }
  const { signature: _, ...signedFields } = value as Record<string, JsonValue>
  return { receipt: parsed.data, signedFields }
}
