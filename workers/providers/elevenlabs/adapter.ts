import { z } from 'zod'
import { type Adapter, type KeyedConnection, noOptionsSchema, urlBelow } from '../adapter.ts'
import { getListing, type LookUpModel, listingJson, type ModelStatus, unknownStatus } from '../model-look-up.ts'
import type { CallOptions } from '../provider.ts'
import { createElevenLabsSpeech } from './speech.ts'
import { createElevenLabsTranscription } from './transcription.ts'

export const elevenlabs: Adapter = {
  needsKey: true,
  ports: (connection, options) => {
    noOptionsSchema.parse(options)
    return {
      speech: createElevenLabsSpeech(connection),
      transcription: createElevenLabsTranscription(connection),
      lookUpModel: createModelLookUp(connection),
    }
  },
}

/** Source: elevenlabs.io/docs/api-reference/models/list */
const modelsWire = z.array(z.object({ model_id: z.string() }))

/** Source: elevenlabs.io/docs/api-reference/voices/search */
const voicesWire = z.object({ voices: z.array(z.object({ voice_id: z.string() })) })

/** The most ids that one search takes. */
const MAXIMUM_VOICES = 100

/**
 * Creates the look-up of the account's models, `GET {baseUrl}/v1/models`, and of the deployment's voices, `GET
 * {baseUrl}/v2/voices`. The vendor lists models of speech synthesis; another one, such as `scribe_v2`, is unknown unless
 * it is listed.
 */
function createModelLookUp({ baseUrl, apiKey, upstreamModel, http }: KeyedConnection): LookUpModel {
  const headers = { 'xi-api-key': apiKey }

  const missingVoices = async (voices: readonly string[], options: CallOptions) => {
    const ids = [...new Set(voices)].slice(0, MAXIMUM_VOICES)
    if (ids.length === 0) return {}
    const query = new URLSearchParams({ page_size: '100' })
    for (const id of ids) query.append('voice_ids', id)
    const exchange = await getListing(
      { url: urlBelow(baseUrl, `/v2/voices?${query.toString()}`), headers, http },
      options,
    )
    const answer = voicesWire.safeParse(listingJson(exchange))
    if (!answer.success) return {}
    const known = new Set(answer.data.voices.map(({ voice_id }) => voice_id))
    return { missingVoices: ids.filter((id) => !known.has(id)) }
  }

  return async (voices, options): Promise<ModelStatus> => {
    const exchange = await getListing({ url: urlBelow(baseUrl, '/v1/models'), headers, http }, options)
    const answer = modelsWire.safeParse(listingJson(exchange))
    if (!answer.success) return unknownStatus(exchange)
    if (answer.data.some(({ model_id }) => model_id === upstreamModel))
      return { outcome: 'listed', ...(await missingVoices(voices, options)) }
    if (upstreamModel.startsWith('eleven_')) return { outcome: 'missing' }
    return { outcome: 'unknown', reason: 'the vendor lists models of speech synthesis only' }
  }
}
