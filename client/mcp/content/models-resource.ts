import { type McpServer } from '@modelcontextprotocol/server'
import { readList } from '../../requests/service-lists.ts'
import type { ModelList, PricingCatalog, VoiceList } from '../../wire/schemas.ts'
import { MODELS_RESOURCE } from '../description/tool-texts.ts'
import type { McpSession } from '../tool.ts'
import { UNTRUSTED_META, UNTRUSTED_RULE } from './untrusted.ts'

/** Adds the resource that lists models, voices and prices, from which an agent chooses. */
export function registerModels(server: McpServer, session: Pick<McpSession, 'fareboxWithoutWallet'>): void {
  const { uri, name, ...description } = MODELS_RESOURCE
  server.registerResource(name, uri, description, async (_uri, { mcpReq: { signal } }) => {
    const { baseUrl } = await session.fareboxWithoutWallet()
    const access = { baseUrl, signal }
    const [models, prices, voices] = await Promise.all([
      readList<ModelList>(access, '/v1/models'),
      readList<PricingCatalog>(access, '/v1/pricing'),
      readList<VoiceList>(access, '/v1/audio/voices'),
    ])
    const lists = { notice: UNTRUSTED_RULE, models: models.data, prices: prices.data, voices: voices.data }
    const content = { uri, mimeType: description.mimeType, text: JSON.stringify(lists, null, 2) }
    return { contents: [{ ...content, _meta: { [UNTRUSTED_META]: { origin: 'service' } } }] }
  })
}
