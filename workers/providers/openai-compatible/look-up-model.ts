import { z } from 'zod'
import { announcedTime, getListing, type LookUpModel, listingJson, unknownStatus } from '../model-look-up.ts'
import type { OpenAiCompatibleDependencies } from './connection.ts'

/** Source: developers.openai.com/api/reference, List models; `shutdown_date` is OpenAI's. */
const modelsWire = z.object({
  data: z.array(z.object({ id: z.string(), shutdown_date: z.string().nullish().catch(null) })),
})

/** Creates the look-up of a server's list, `GET {baseUrl}/models`. Servers do not offer a look-up of one model. */
export function createModelLookUp({ baseUrl, apiKey, upstreamModel, http }: OpenAiCompatibleDependencies): LookUpModel {
  const url = `${baseUrl.replace(/\/+$/, '')}/models`
  const headers: Record<string, string> = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
  return async (_voices, options) => {
    const exchange = await getListing({ url, headers, http }, options)
    const answer = modelsWire.safeParse(listingJson(exchange))
    if (!answer.success) return unknownStatus(exchange)
    const model = answer.data.data.find(({ id }) => id === upstreamModel)
    return model === undefined ? { outcome: 'missing' } : { outcome: 'listed', ...announcedTime(model.shutdown_date) }
  }
}
