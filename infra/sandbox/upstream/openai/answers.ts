import type { VendorAnswer, VendorRequest } from '../vendor-route.ts'
import { loggedFields } from '../writing/json-request.ts'

/**
 * An error body as OpenAI documents it. The wording is our own.
 * Source: developers.openai.com, Error codes; npm package `openai` 7, core/error.
 */
function refusal(status: number, type: string, code: string | null, message: string, param: string | null = null) {
  return { status, accepted: false, body: { error: { message, type, param, code } } } satisfies VendorAnswer
}

export function invalidRequest(message: string, param: string | null = null, code: string | null = null): VendorAnswer {
  return refusal(400, 'invalid_request_error', code, message, param)
}

/** Refuses another bearer token than the one that is accepted; without one, as on a self-hosted server, everybody may call. */
export function refuseKey({ headers }: VendorRequest, apiKey: string | undefined): VendorAnswer | undefined {
  if (apiKey === undefined || headers.get('authorization') === `Bearer ${apiKey}`) return undefined
  return refusal(401, 'invalid_request_error', 'invalid_api_key', 'Incorrect API key provided.')
}

/** The request's fields for the call log; of images in data URIs only the beginning stays. */
export function describeJson({ body }: Pick<VendorRequest, 'body'>): Record<string, string> {
  const fields = Object.entries(loggedFields(body))
  return Object.fromEntries(fields.map(([name, json]) => [name, json.replaceAll(longDataUri, ';base64,…')]))
}

const longDataUri = /;base64,[A-Za-z0-9+/]{200,}=*/g
