import { createHmac, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'

/** The public, immutable record of one paid call. Amounts are decimal strings of atomic USDC; times ISO 8601. */
export const receiptSchema = z.strictObject({
  id: z.uuid(),
  object: z.literal('receipt'),
  operation: z.string(),
  model: z.string(),
  usage: z.record(z.string(), z.int()),
  /** The terms that the charge follows from: prices and bounds as decimal dollars, limits as integers. */
  unit_prices: z.record(z.string(), z.union([z.string(), z.int()])),
  catalog_version: z.string(),
  price_version: z.string(),
  quoted_maximum_atomic: z.string(),
  authorized_maximum_atomic: z.string(),
  charge_atomic: z.string(),
  charge_usdc: z.string(),
  currency: z.literal('USDC'),
  payer: z.string(),
  pay_to: z.string(),
  network: z.string(),
  asset: z.string(),
  transaction: z.string(),
  block_number: z.string(),
  request_digest: z.string(),
  result_digest: z.string(),
  accepted_at: z.iso.datetime(),
  settled_at: z.iso.datetime(),
  issued_at: z.iso.datetime(),
})

export type Receipt = z.infer<typeof receiptSchema>

/** A server secret by name, so that tokens issued under an older one stay valid while it is still listed. */
export interface ReceiptSecret {
  readonly id: string
  readonly secret: string
}

/** Derives the bearer capability of one receipt. Nothing readable is stored, and a replay derives the same token. */
export function receiptToken(receiptId: string, { id, secret }: ReceiptSecret): string {
  const tag = createHmac('sha256', secret).update('farebox receipt\0').update(receiptId).digest('base64url')
  return `${id}.${tag}`
}

/** Whether `token` opens the receipt under any of the listed secrets; compared in constant time. */
export function opensReceipt(token: string, receiptId: string, secrets: readonly ReceiptSecret[]): boolean {
  const given = Buffer.from(token)
  return secrets.some((secret) => {
    const expected = Buffer.from(receiptToken(receiptId, secret))
    return given.length === expected.length && timingSafeEqual(given, expected)
  })
}
