import type { FastifyInstance } from 'fastify'
import type { z } from 'zod'
import type { Catalog, SpeechModel } from '#shared/catalog/catalog.ts'
import type { voiceListSchema, voiceSchema } from '../schemas/voices.ts'
import { addStaticJson } from './static-response.ts'

/** The public provider name; the upstream deployment behind it stays private. */
const PROVIDER = 'speechvendor'

/**
 * Adds `GET /v1/audio/voices`, with exactly the specified fields; the list is empty while no speech model is available.
 */
export function addVoiceRoutes(app: FastifyInstance, { catalog }: { catalog: Catalog }): void {
  const models = catalog.models.filter((model): model is SpeechModel => model.category === 'text_to_speech')
  const body: z.infer<typeof voiceListSchema> = {
    object: 'list',
    defaults: Object.fromEntries(models.map(({ id, defaultVoice }) => [id, defaultVoice])),
    data: models.length === 0 ? [] : catalog.voices.map((voice) => listedVoice(voice, models)),
  }
  addStaticJson(app, '/v1/audio/voices', body)
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
