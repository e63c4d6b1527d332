import { z } from 'zod'

// Not z.int(): a number beyond the safe integers is too large for the published limits, and the error says so.
const wholeNumberSchema = z
  .number()
  .min(1)
  .refine(Number.isInteger, { error: 'must be an integer' })
  .meta({ type: 'integer' })

/** A recording as its caller measured it, in place of the recording. The published limits are checked later. */
export const describedAudioSchema = z.strictObject({
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/, { error: 'must be 64 lowercase hexadecimal digits' })
    .meta({ description: 'SHA-256 of the file.' }),
  bytes: wholeNumberSchema.meta({ description: 'The size of the file.' }),
  duration_ms: wholeNumberSchema.meta({
    description:
      'The duration of all frames without the Xing, Info or VBRI frame, encoder delay and padding included, rounded up to a millisecond.',
  }),
})

export const quoteSchema = z.strictObject({
  object: z.literal('quote'),
  operation: z.string(),
  /** The path of the paid endpoint that executes the request. */
  path: z.string(),
  model: z.string(),
  catalog_version: z.string(),
  request_digest: z.string(),
  /** Of a transcription only. `is_inspected` is false for a recording that was described and not sent. */
  audio: z
    .strictObject({
      sha256: z.string(),
      bytes: z.int().positive(),
      duration_ms: z.int().positive(),
      is_inspected: z.boolean(),
    })
    .optional(),
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
