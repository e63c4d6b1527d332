import type { IncomingMessage, ServerResponse } from 'node:http'
import { createModelRoute as createAnthropicModel } from './anthropic/models.ts'
import { createModelsRoute as createElevenLabsModels, createVoicesRoute } from './elevenlabs/models.ts'
import { createModelRoutes as createGeminiModels } from './gemini/models.ts'
import { createModelRoutes as createOpenAiModels } from './openai/models.ts'
import { type ListingRoute, matchesPath } from './vendor-route.ts'

/** Creates the lists of all vendors; OpenAI's is the last, since its requests have no header of their own. */
export function createListings(options: { apiKey: string | undefined }): readonly ListingRoute[] {
  return [
    createElevenLabsModels(options),
    createVoicesRoute(options),
    createAnthropicModel(options),
    ...createGeminiModels(options),
    ...createOpenAiModels(options),
  ]
}

export function findListing(
  listings: readonly ListingRoute[],
  request: IncomingMessage,
  path: string,
): ListingRoute | undefined {
  if (request.method !== 'GET') return undefined
  const headers = headersOf(request)
  return listings.find((listing) => matchesPath(listing, path) && listing.accepts?.(headers) !== false)
}

export function answerListing(listing: ListingRoute, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '/', 'http://upstream')
  const { status, body } = listing.answer({ url, headers: headersOf(request) })
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function headersOf(request: IncomingMessage): Headers {
  return new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
}
