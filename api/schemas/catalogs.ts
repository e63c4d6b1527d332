import { z } from 'zod'
import { modelSchema } from './models.ts'
import { pricingEntrySchema } from './pricing.ts'
import { voiceSchema } from './voices.ts'

/** One version of the catalog, with the entries of the three lists as they were. */
export const catalogSchema = z.strictObject({
  object: z.literal('catalog'),
  catalog_version: z.string(),
  service_fee_basis_points: z.int().min(0),
  promotion: z.string().nullable(),
  pricing: z.array(pricingEntrySchema),
  models: z.array(modelSchema),
  voices: z.array(voiceSchema),
})
