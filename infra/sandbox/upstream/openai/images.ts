import { z } from 'zod'
import { drawPng } from '../drawing/draw-png.ts'
import type { VendorAnswer, VendorRequest, VendorRoute } from '../vendor-route.ts'
import { readJson } from '../writing/json-request.ts'
import { describeJson, invalidRequest, refuseKey } from './answers.ts'

const imageRequest = z.strictObject({
  model: z.string().min(1),
  prompt: z.string().min(1).max(32_000),
  n: z.literal(1).nullish(),
  size: z.enum(['auto', '1024x1024']).nullish(),
  response_format: z.literal('b64_json').nullish(),
})

/**
 * Creates `POST /v1/images/generations` as documented by OpenAI, for one inline image of 1024 × 1024 pixels. A prompt
 * with `please refuse` is refused, as its moderation would.
 *
 * Source: developers.openai.com/api/reference, Images; npm package `openai` 7, resources/images.d.ts.
 */
export function createImagesRoute({ apiKey }: { apiKey: string | undefined }): VendorRoute {
  return {
    method: 'POST',
    path: '/v1/images/generations',
    describe: async (request) => ({ fields: describeJson(request) }),
    answer: async (request) => refuseKey(request, apiKey) ?? draw(request),
    emptied: (answer) => ({ ...answer, body: { ...(answer.body as object), data: [] } }),
  }
}

function draw(request: VendorRequest): VendorAnswer {
  const parsed = imageRequest.safeParse(readJson(request.body))
  if (!parsed.success) return invalidRequest('Invalid value.', parsed.error.issues[0]?.path.join('.') ?? null)
  const { prompt } = parsed.data
  if (/\bplease refuse\b/i.test(prompt)) {
    return invalidRequest('The request was rejected by the safety system.', null, 'moderation_blocked')
  }
  const image = { b64_json: drawPng(prompt).toString('base64'), revised_prompt: prompt }
  return { status: 200, accepted: true, body: { created: Math.floor(Date.now() / 1000), data: [image] } }
}
