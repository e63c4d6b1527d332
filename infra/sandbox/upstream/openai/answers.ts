import type { z } from 'zod'
import type { VendorAnswer } from '../vendor-route.ts'

/**
 * Returns an error body as documented by OpenAI, with our own wording.
 * Source: developers.openai.com, Error codes; npm package `openai` 7, core/error.
 */
export function refusal(
  status: number,
  type: string,
  code: string | null,
  message: string,
  param: string | null = null,
): VendorAnswer {
  return { status, body: { error: { message, type, param, code } } }
}

export function invalidRequest(message: string, param: string | null = null, code: string | null = null): VendorAnswer {
  return refusal(400, 'invalid_request_error', code, message, param)
}

/** Reads a request, or refuses the first field that is unknown or has a bad value. */
export function readValid<Request>(schema: z.ZodType<Request>, json: unknown): Request | VendorAnswer {
  const { data, error } = schema.safeParse(json)
  if (data !== undefined) return data
  const [issue] = error?.issues ?? []
  if (issue?.code === 'unrecognized_keys')
    return invalidRequest('Unknown parameter.', issue.keys.join(', '), 'unknown_parameter')
  return invalidRequest('Invalid value.', issue?.path.join('.') ?? null, 'invalid_value')
}

/** Refuses any bearer token except `apiKey`; without one, as on a self-hosted server, every call is accepted. */
export function refuseKey(headers: Headers, apiKey: string | undefined): VendorAnswer | undefined {
  if (apiKey === undefined || headers.get('authorization') === `Bearer ${apiKey}`) return undefined
  return refusal(401, 'invalid_request_error', 'invalid_api_key', 'Incorrect API key provided.')
}
