import { type ListingRoute, pathParameter } from '../vendor-route.ts'
import { refusal, refuseKey } from './answers.ts'

const MODEL_PATH = '/v1/models/{model}'

/** The models by id, with the day of their shutdown. */
const MODELS: Readonly<Record<string, string | null>> = {
  'simulated-chat': null,
  'simulated-image': null,
  'simulated-speech': null,
  'simulated-whisper': null,
  'gpt-6-luna': null,
  'gpt-image-2.6-flare': null,
  'gpt-4.1-mini': '2027-01-14',
}

/**
 * Creates `GET /v1/models` and `GET /v1/models/{model}` as documented by OpenAI, shutdown dates included.
 * Source: developers.openai.com/api/reference, List models; npm package `openai` 7, resources/models.d.ts
 */
export function createModelRoutes({ apiKey }: { apiKey: string | undefined }): readonly ListingRoute[] {
  return [
    {
      path: '/v1/models',
      answer: (request) =>
        refuseKey(request, apiKey) ?? {
          status: 200,
          accepted: false,
          body: { object: 'list', data: Object.keys(MODELS).map(describe) },
        },
    },
    {
      path: MODEL_PATH,
      answer: (request) => {
        const id = pathParameter(MODEL_PATH, request, 'model') ?? ''
        const refused = refuseKey(request, apiKey)
        if (refused !== undefined) return refused
        if (!Object.hasOwn(MODELS, id)) {
          const message = `The model '${id}' does not exist`
          return refusal(404, 'invalid_request_error', 'model_not_found', message, 'model')
        }
        return { status: 200, accepted: false, body: describe(id) }
      },
    },
  ]
}

function describe(id: string) {
  return { id, object: 'model', created: 1_790_000_000, owned_by: 'simulated', shutdown_date: MODELS[id] ?? null }
}
