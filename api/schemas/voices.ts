import { z } from 'zod'

export const voiceSchema = z.strictObject({
  id: z.string(),
  name: z.string(),
  description: z.string(),
  provider: z.string(),
  languages: z.array(z.string()),
  models: z.array(z.string()),
  default_for_models: z.array(z.string()),
  retirement_date: z.iso.date().nullable(),
})

export const voiceListSchema = z.strictObject({
  object: z.literal('list'),
  /** The default voice of each available text-to-speech model. */
  defaults: z.record(z.string(), z.string()),
  data: z.array(voiceSchema),
})
