import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { Catalog, SpeechModel } from '#shared/catalog/catalog.ts'
import { addStaticJson } from './static-answer.ts'

/** The public name of whoever speaks; the upstream deployment behind it stays private. */
const PROVIDER = 'speechvendor'

const voiceSchema = z.strictObject({
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
  /** From each enabled text-to-speech model to a voice. */
  defaults: z.record(z.string(), z.string()),
  data: z.array(voiceSchema),
})

/** `GET /v1/audio/voices`: nothing but what is specified of each voice; empty while no speech model is available. */
export function addVoiceRoutes(app: FastifyInstance, { catalog }: { catalog: Catalog }): void {
  const models = catalog.models.filter((model): model is SpeechModel => model.category === 'text_to_speech')
  const answer: z.infer<typeof voiceListSchema> = {
    object: 'list',
    defaults: Object.fromEntries(models.map(({ id, defaultVoice }) => [id, defaultVoice])),
    data: models.length === 0 ? [] : catalog.voices.map((voice) => listedVoice(voice, models)),
  }
  addStaticJson(app, '/v1/audio/voices', answer)
}

function listedVoice(voice: Catalog['voices'][number], models: readonly SpeechModel[]): z.infer<typeof voiceSchema> {
  return {
    id: voice.id,
    name: voice.name,
    description: voice.description,
    provider: PROVIDER,
    languages: [...voice.languages],
    models: models.map(({ id }) => id),
    default_for_models: models.filter(({ defaultVoice }) => defaultVoice === voice.id).map(({ id }) => id),
    retirement_date: voice.retirementDate,
  }
}
