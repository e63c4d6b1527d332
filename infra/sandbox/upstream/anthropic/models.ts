import { type ListingRoute, ok } from '../vendor-route.ts'
import { refusal, refuseKey } from './refusals.ts'

/** The lifecycle of models that are about to retire, or did: state, days of deprecation and retirement. */
const ENDING: Readonly<Record<string, readonly [string, string, string]>> = {
  'claude-sonnet-4-5': ['deprecated', '2026-09-15', '2026-11-30'],
  'claude-opus-4-20250514': ['retired', '2026-04-14', '2026-06-15'],
}

/**
 * `GET /v1/models/{model}` as documented for the Anthropic API; models are named `claude-…`.
 * Source: the npm package `@anthropic-ai/sdk` 1.12, resources/models.d.ts
 */
export const modelRoute: ListingRoute = {
  path: '/v1/models/{model}',
  refuseKey,
  header: 'anthropic-version',
  answer: ({ parameter: model }) => {
    if (!model.startsWith('claude-')) return refusal(404, 'not_found_error', `model: ${model}`)
    const [lifecycle, deprecated, retires] = ENDING[model] ?? ['active']
    return ok({
      type: 'model',
      id: model,
      display_name: model,
      created_at: '2026-09-28T00:00:00Z',
      capabilities: null,
      line: null,
      max_input_tokens: 1_000_000,
      max_tokens: 128_000,
      lifecycle,
      deprecated_at: deprecated === undefined ? null : `${deprecated}T00:00:00Z`,
      retires_at: retires === undefined ? null : `${retires}T00:00:00Z`,
    })
  },
}
