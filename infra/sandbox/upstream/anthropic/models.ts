import { type ListingRoute, listed } from '../vendor-route.ts'
import { refusal, refuseKey } from './refusals.ts'

/** Models that are about to retire, or did. */
const ENDING: Readonly<Record<string, { lifecycle: string; deprecated_at: string; retires_at: string }>> = {
  'claude-sonnet-4-5': {
    lifecycle: 'deprecated',
    deprecated_at: '2026-09-15T00:00:00Z',
    retires_at: '2026-11-30T00:00:00Z',
  },
  'claude-opus-4-20250514': {
    lifecycle: 'retired',
    deprecated_at: '2026-04-14T00:00:00Z',
    retires_at: '2026-06-15T00:00:00Z',
  },
}

/**
 * `GET /v1/models/{model}` as documented for the Anthropic API; models are named `claude-…`.
 * Source: the npm package `@anthropic-ai/sdk` 1.12, resources/models.d.ts
 */
export const modelRoute: ListingRoute = {
  path: '/v1/models/{model}',
  refuseKey,
  accepts: (headers) => headers.has('anthropic-version'),
  answer: ({ parameter: model }) => {
    if (!model.startsWith('claude-')) return refusal(404, 'not_found_error', `model: ${model}`)
    return listed({
      type: 'model',
      id: model,
      display_name: model,
      created_at: '2026-09-28T00:00:00Z',
      capabilities: null,
      line: null,
      max_input_tokens: 1_000_000,
      max_tokens: 128_000,
      ...(ENDING[model] ?? { lifecycle: 'active', deprecated_at: null, retires_at: null }),
    })
  },
}
