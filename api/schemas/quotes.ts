import { z } from 'zod'

export const quoteSchema = z.strictObject({
  object: z.literal('quote'),
  operation: z.string(),
  /** The path of the paid endpoint that executes the request. */
  path: z.string(),
  model: z.string(),
  catalog_version: z.string(),
  request_digest: z.string(),
  price: z.strictObject({ amount: z.string(), currency: z.literal('USDC'), type: z.literal('maximum') }),
  quoted_maximum_atomic: z.string(),
  /** The unit prices and bounds that the charge is computed from. */
  terms: z.record(z.string(), z.unknown()),
  payment: z.strictObject({
    x402_version: z.literal(2),
    scheme: z.literal('upto'),
    network: z.string(),
    asset: z.string(),
    pay_to: z.string(),
    max_timeout_seconds: z.int().positive(),
  }),
})
