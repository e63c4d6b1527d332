import { z } from 'zod'
import { getListing, type LookUpModel, listingJson, unknownStatus } from '../model-look-up.ts'
import type { GeminiDependencies } from './generate-content.ts'

/** Source: ai.google.dev/api/models, Model; it contains no date of retirement. */
const modelWire = z.object({ name: z.string() })

const notFoundWire = z.object({ error: z.object({ status: z.literal('NOT_FOUND') }) })

/** Creates the look-up `GET {baseUrl}/v1beta/models/{model}`. */
export function createModelLookUp({ baseUrl, apiKey, upstreamModel, http }: GeminiDependencies): LookUpModel {
  const url = `${baseUrl.replace(/\/+$/, '')}/v1beta/models/${upstreamModel}`
  const headers = { 'x-goog-api-key': apiKey }
  return async (_voices, options) => {
    const exchange = await getListing({ url, headers, http }, options)
    if (notFoundWire.safeParse(listingJson(exchange, 404)).success) return { outcome: 'missing' }
    return modelWire.safeParse(listingJson(exchange)).success ? { outcome: 'listed' } : unknownStatus(exchange)
  }
}
