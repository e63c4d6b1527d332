import { z } from 'zod'
import { signedReceiptSchema } from '#shared/payment/receipt.ts'

/** Entries of a page. */
export const MAXIMUM_PAGE = 100
export const DEFAULT_PAGE = 20
/** Days that are added up. */
export const MAXIMUM_SPEND_DAYS = 366
export const DEFAULT_SPEND_DAYS = 30

const atomic = z.string().regex(/^\d+$/)
const usdc = z.string().regex(/^\d+(\.\d{1,6})?$/)

const page = {
  has_more: z.boolean(),
  next_cursor: z.string().nullable().meta({ description: 'Send it as `cursor` to read the next page.' }),
}

const idempotencyKey = z.string().meta({
  description: 'The key that you chose for the call. Repeat the call with it to get the result, or to pay for it.',
})

export const accountReceiptsSchema = z.strictObject({
  object: z.literal('list'),
  payer: z.string(),
  data: z.array(
    z.strictObject({
      /** The same as from `GET /v1/receipts/{id}`. */
      receipt: signedReceiptSchema,
      receipt_token: z.string().meta({ description: 'Opens GET /v1/receipts/{id}. Earlier tokens stay valid.' }),
      idempotency_key: idempotencyKey,
    }),
  ),
  ...page,
})

export const accountSpendSchema = z.strictObject({
  object: z.literal('account_spend'),
  payer: z.string(),
  currency: z.literal('USDC'),
  from: z.iso.date(),
  to: z.iso.date().meta({ description: 'Included.' }),
  calls: z.int(),
  total_atomic: atomic,
  total_usdc: usdc,
  data: z.array(
    z.strictObject({
      date: z.iso.date().meta({ description: 'The UTC day on which the calls were completed.' }),
      model: z.string(),
      operation: z.string(),
      calls: z.int(),
      charge_atomic: atomic,
      charge_usdc: usdc,
    }),
  ),
})

const unpaidCall = {
  idempotency_key: idempotencyKey,
  request_id: z.string().nullable(),
  operation: z.string(),
  model: z.string(),
  accepted_at: z.iso.datetime(),
}

const totals = {
  payer: z.string(),
  currency: z.literal('USDC'),
  calls: z.int(),
  total_atomic: atomic,
  total_usdc: usdc,
}

export const accountDebtsSchema = z.strictObject({
  object: z.literal('list'),
  ...totals,
  data: z.array(z.strictObject({ ...unpaidCall, charge_atomic: atomic, charge_usdc: usdc })),
  ...page,
})

export const accountOpenSchema = z.strictObject({
  object: z.literal('list'),
  ...totals,
  data: z.array(
    z.strictObject({
      ...unpaidCall,
      state: z.enum(['accepted', 'generating', 'generated', 'settling', 'review']),
      at_most_atomic: atomic.meta({ description: 'The charge once it is fixed, the quoted maximum before.' }),
      at_most_usdc: usdc,
    }),
  ),
  ...page,
})
