import { type ListingRoute, pathParameter, type VendorAnswer } from '../vendor-route.ts'
import { refuseKey } from './generate-content.ts'
import { refusal } from './refusals.ts'

const MODEL_PATH = '/v1beta/models/{model}'

/** Some of the vendor's models; a request for any other `gemini-…` finds it as well. */
const MODELS = ['gemini-3.8-flash', 'gemini-3.6-flash', 'gemini-3.5-flash-lite', 'gemini-3.1-flash-lite-image']

/**
 * Creates `GET /v1beta/models` and `GET /v1beta/models/{model}` as documented for the Gemini API.
 * Source: ai.google.dev/api/models
 */
export function createModelRoutes({ apiKey }: { apiKey: string | undefined }): readonly ListingRoute[] {
  return [
    {
      path: '/v1beta/models',
      answer: (request) => refuseKey(request, apiKey) ?? ok({ models: MODELS.map(describe) }),
    },
    {
      path: MODEL_PATH,
      answer: (request) => {
        const model = pathParameter(MODEL_PATH, request, 'model') ?? ''
        const found = model.startsWith('gemini-') ? ok(describe(model)) : undefined
        return refuseKey(request, apiKey) ?? found ?? refusal(404, 'NOT_FOUND', `Model is not found: models/${model}`)
      },
    },
  ]
}

function ok(body: object): VendorAnswer {
  return { status: 200, accepted: false, body }
}

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
