import { createHmac, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'

/** Exact dollars: a decimal, or `n/d` in lowest terms when the decimal expansion is infinite. */
const exactDollars = z.string().regex(/^\d+(\.\d+|\/\d+)?$/)

/** The calculation of the charge from usage and unit prices, complete enough to repeat by hand. */
const calculationSchema = z.strictObject({
  lines: z.array(
    z.strictObject({
      usage: z.string().meta({
        description:
          'The field of usage, or uncached_input_tokens: input_tokens without cached_input_tokens and cache_write_tokens, where those have prices of their own.',
      }),
      measured: z.int(),
      at_most: z.int().nullable().meta({
        description:
          'The quantity known before the call, less what earlier lines of the same input took of it. No more is charged.',
      }),
      quantity: z.string().meta({ description: 'The lower of measured and at_most.' }),
      unit: z.string(),
      unit_price_usd: z.string(),
      per_units: z.string().meta({ description: 'How many units the price is for.' }),
      product_usd: exactDollars.meta({ description: 'quantity × unit_price_usd ÷ per_units, exact.' }),
    }),
  ),
  sum_usd: exactDollars.meta({ description: 'The sum of the products, exact.' }),
  rounding: z.string(),
  rounded_atomic: z.string(),
  minimum_atomic: z.string(),
  gas_minimum_atomic: z.string().optional().meta({
    description:
      'What settling the charge was expected to cost when it was quoted, where that is above the minimum. No less is charged.',
  }),
  maximum_atomic: z.string().meta({ description: 'The lower of quoted and authorized maximum.' }),
  applied: z.enum(['none', 'minimum', 'gas_minimum', 'maximum']),
  charge_atomic: z.string(),
})

/** The public, immutable record of one paid call. Amounts are decimal strings of atomic USDC, times ISO 8601. */
export const receiptSchema = z.strictObject({
  id: z.uuid(),
  object: z.literal('receipt'),
  operation: z.string(),
  model: z.string(),
  usage: z.record(z.string(), z.int()),
  unit_prices: z.record(z.string(), z.union([z.string(), z.int()])).meta({
    description:
      'Prices and bounds of the charge, as decimal dollars. Receipts of earlier versions also have quantities of the request here, as integers; they are at_most of the calculation.',
  }),
  catalog_version: z.string(),
  price_version: z.string().meta({
    description: 'The same for all calls with equal unit_prices, whatever else the catalog or the request contains.',
  }),
  quoted_maximum_atomic: z.string(),
  authorized_maximum_atomic: z.string(),
  charge_atomic: z.string(),
  charge_usdc: z.string(),
  /** Missing in receipts issued before it was introduced. It follows from usage and unit prices. */
  calculation: calculationSchema.optional(),
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
  settled_at: z.iso.datetime().meta({
    description: 'The time of the block, in whole seconds of the chain’s clock. It may be before accepted_at.',
  }),
  issued_at: z.iso.datetime(),
})

export type Receipt = z.infer<typeof receiptSchema>

/** The current settlement of the charge: a reorganization can move it into another block than the receipt states. */
const settlementSchema = z.strictObject({
  state: z.enum(['confirmed', 'final', 'lost']).meta({
    description:
      'final: its block can no longer be replaced. lost: a reorganization removed it, and it cannot be settled again.',
  }),
  transaction: z.string().meta({
    description:
      'That of the receipt, unless a replacement with the same account nonce was mined after a reorganization.',
  }),
  block_number: z.string(),
})

/** The immutable receipt with its current settlement. */
export const currentReceiptSchema = receiptSchema.extend({ settlement: settlementSchema })

export type CurrentReceipt = z.infer<typeof currentReceiptSchema>

/** A receipt as sent, with the service's signature over the canonical JSON of all other fields. */
export const signedReceiptSchema = currentReceiptSchema.extend({
  signature: z.string().meta({
    description:
      'Detached JWS (RFC 7515, appendix F) of the other fields as canonical JSON (RFC 8785), by a key of /.well-known/jwks.json.',
  }),
})

/** The `typ` of that signature. */
export const RECEIPT_TYPE = 'farebox-receipt'

/** A named server secret. Tokens issued under an older one stay valid while it is listed. */
export interface ReceiptSecret {
  readonly id: string
  readonly secret: string
}

/** Derives the bearer token of one receipt. No token is stored; a replay derives the same one. */
export function receiptToken(receiptId: string, { id, secret }: ReceiptSecret): string {
  const tag = createHmac('sha256', secret).update('farebox receipt\0').update(receiptId).digest('base64url')
  return `${id}.${tag}`
}

/** Returns whether `token` opens the receipt under any of the listed secrets. Compares in constant time. */
export function opensReceipt(token: string, receiptId: string, secrets: readonly ReceiptSecret[]): boolean {
  const given = Buffer.from(token)
  return secrets.some((secret) => {
    const expected = Buffer.from(receiptToken(receiptId, secret))
    return given.length === expected.length && timingSafeEqual(given, expected)
  })
}
