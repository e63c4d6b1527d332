import { type ListingRoute, ok } from '../vendor-route.ts'
import { refusal, refuseKey } from './refusals.ts'

/** Some of the vendor's models; a request for any other `gemini-…` finds it as well. */
const MODELS = ['gemini-3.8-flash', 'gemini-3.6-flash', 'gemini-3.5-flash-lite', 'gemini-3.1-flash-lite-image']

/**
 * `GET /v1beta/models` and `GET /v1beta/models/{model}` as documented for the Gemini API.
 * Source: ai.google.dev/api/models
 */
export const modelRoutes: readonly ListingRoute[] = [
  { path: '/v1beta/models', refuseKey, answer: () => ok({ models: MODELS.map(describe) }) },
  {
    path: '/v1beta/models/{model}',
    refuseKey,
    answer: ({ parameter: model }) =>
      model.startsWith('gemini-')
        ? ok(describe(model))
        : refusal(404, 'NOT_FOUND', `Model is not found: models/${model}`),
  },
]

function describe(model: string) {
  return {
    name: `models/${model}`,
    version: '001',
    displayName: model,
    inputTokenLimit: 1_048_576,
    outputTokenLimit: 65_536,
    supportedGenerationMethods: ['generateContent', 'countTokens'],
  }
}
