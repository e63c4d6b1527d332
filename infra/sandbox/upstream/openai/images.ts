import { z } from 'zod'
import { drawPng } from '../drawing/draw-png.ts'
import type { VendorAnswer, VendorRequest, VendorRoute } from '../vendor-route.ts'
import { readJson } from '../writing/json-request.ts'
import { invalidRequest, refuseKey } from './answers.ts'

const imageRequest = z.strictObject({
  model: z.string().min(1),
  prompt: z.string().min(1).max(32_000),
  n: z.literal(1).nullish(),
  size: z.enum(['auto', '1024x1024']).nullish(),
  response_format: z.literal('b64_json').nullish(),
  quality: z.enum(['auto', 'low', 'medium', 'high', 'xhigh', 'max']).nullish(),
  background: z.enum(['auto', 'opaque']).nullish(),
  moderation: z.enum(['auto', 'low']).nullish(),
  output_format: z.literal('png').nullish(),
  user: z.string().nullish(),
})

/**
 * `POST /v1/images/generations` as documented by OpenAI, for one inline image of 1024 × 1024 pixels. A prompt
 * with `please refuse` is refused, as its moderation would. Models named `gpt-image-…` refuse `response_format`.
 *
 * Source: developers.openai.com/api/reference, Images; npm package `openai` 7, resources/images.d.ts.
 */
export const imagesRoute: VendorRoute = {
  path: '/v1/images/generations',
  refuseKey,
  answer: draw,
  emptied: (body) => ({ ...body, data: [] }),
}

function draw(request: VendorRequest): VendorAnswer {
  const parsed = imageRequest.safeParse(readJson(request.body))
  if (!parsed.success) return invalidRequest('Invalid value.', parsed.error.issues[0]?.path.join('.') ?? null)
  const { model, prompt, quality, response_format: format } = parsed.data
  const isGptImage = model.startsWith('gpt-image-')
  if (isGptImage && typeof format === 'string')
    return invalidRequest("Unknown parameter: 'response_format'.", 'response_format', 'unknown_parameter')
  if (/\bplease refuse\b/i.test(prompt)) {
    return invalidRequest('The request was rejected by the safety system.', null, 'moderation_blocked')
  }
  const created = Math.floor(Date.now() / 1000)
  const b64_json = drawPng(prompt).toString('base64')
  const body = isGptImage
    ? {
        created,
        background: 'opaque',
        data: [{ b64_json }],
        output_format: 'png',
        quality: quality ?? 'medium',
        size: '1024x1024',
        usage: {
          input_tokens: 12,
          input_tokens_details: { image_tokens: 0, text_tokens: 12 },
          output_tokens: 1056,
          total_tokens: 1068,
        },
      }
    : { created, data: [{ b64_json, revised_prompt: prompt }] }
  return { status: 200, accepted: true, body }
}
