import { type ListingRoute, ok } from '../vendor-route.ts'
import { refusal, refuseKey } from './answers.ts'

/** The models by id, with the day of their shutdown. */
const MODELS = new Map<string, string | null>([
  ['simulated-chat', null],
  ['simulated-image', null],
  ['simulated-speech', null],
  ['simulated-whisper', null],
  ['gpt-6-luna', null],
  ['gpt-image-2.6-flare', null],
  ['gpt-4.1-mini', '2027-01-14'],
])

/**
 * `GET /v1/models` and `GET /v1/models/{model}` as documented by OpenAI, shutdown dates included.
 * Source: developers.openai.com/api/reference, List models; npm package `openai` 7, resources/models.d.ts
 */
export const modelRoutes: readonly ListingRoute[] = [
  { path: '/v1/models', refuseKey, answer: () => ok({ object: 'list', data: [...MODELS.keys()].map(describe) }) },
  {
    path: '/v1/models/{model}',
    refuseKey,
    answer: ({ parameter: id }) =>
      MODELS.has(id)
        ? ok(describe(id))
        : refusal(404, 'invalid_request_error', 'model_not_found', `The model '${id}' does not exist`, 'model'),
  },
]

function describe(id: string) {
  return { id, object: 'model', created: 1_790_000_000, owned_by: 'simulated', shutdown_date: MODELS.get(id) ?? null }
}
