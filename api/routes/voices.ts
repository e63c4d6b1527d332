import type { FastifyInstance } from 'fastify'
import type { z } from 'zod'
import { type Catalog, type SpeechModel, withoutRetiredVoices } from '#shared/catalog/catalog.ts'
import { type CurrentCatalog, derived } from '../request/live-catalog.ts'
import type { voiceListSchema, voiceSchema } from '../schemas/catalogs.ts'
import { addCachedResponse, jsonRepresentation } from './static-response.ts'

/**
 * Adds `GET /v1/audio/voices`, with exactly the specified fields; the list is empty while no speech model is available.
 * A voice leaves the list after its retirement date.
 */
export function addVoiceRoutes(
  app: FastifyInstance,
  { catalog, now }: { catalog: CurrentCatalog; now: () => Date },
): void {
  const listed = derived(catalog, (current) => {
    let last = { offered: current, representation: jsonRepresentation(voiceList(current)) }
    return () => {
      const offered = withoutRetiredVoices(current, now())
      if (offered.voices.length !== last.offered.voices.length)
        last = { offered, representation: jsonRepresentation(voiceList(offered)) }
      return last.representation
    }
  })
  addCachedResponse(app, '/v1/audio/voices', () => listed()())
}

export function voiceList(catalog: Catalog): z.infer<typeof voiceListSchema> {
  const models = catalog.models.filter((model): model is SpeechModel => model.category === 'text_to_speech')
  return {
    object: 'list',
    defaults: Object.fromEntries(models.map(({ id, defaultVoice }) => [id, defaultVoice])),
    data: models.length === 0 ? [] : catalog.voices.map((voice) => listedVoice(voice, models, catalog)),
  }
}

function listedVoice(
  voice: Catalog['voices'][number],
  models: readonly SpeechModel[],
  { common }: Catalog,
): z.infer<typeof voiceSchema> {
  return {
    id: voice.id,
    name: voice.name,
    description: voice.description,
    provider: common.voiceProvider,
    languages: [...voice.languages],
    models: models.map(({ id }) => id),
    default_for_models: models.filter(({ defaultVoice }) => defaultVoice === voice.id).map(({ id }) => id),
    retirement_date: voice.retirementDate,
  }
}
