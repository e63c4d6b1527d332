import { z } from 'zod'
import { drawPng } from '../drawing/draw-png.ts'
import { ok, type VendorAnswer, type VendorRequest, type VendorRoute } from '../vendor-route.ts'
import { invalidRequest, readValid, refuseKey } from './answers.ts'

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
export const imagesRoute: VendorRoute = { path: '/v1/images/generations', refuseKey, answer: draw }

const USAGE = {
  input_tokens: 12,
  input_tokens_details: { image_tokens: 0, text_tokens: 12 },
  output_tokens: 1056,
  total_tokens: 1068,
}

function draw({ json, lacks }: VendorRequest): VendorAnswer {
  const request = readValid(imageRequest, json)
  if ('status' in request) return request
  const { model, prompt, quality, response_format: format } = request
  const isGptImage = model.startsWith('gpt-image-')
  if (isGptImage && typeof format === 'string')
    return invalidRequest("Unknown parameter: 'response_format'.", 'response_format', 'unknown_parameter')
  if (/\bplease refuse\b/i.test(prompt))
    return invalidRequest('The request was rejected by the safety system.', null, 'moderation_blocked')
  const b64_json = drawPng(prompt).toString('base64')
  const data = lacks === 'output' ? [] : [isGptImage ? { b64_json } : { b64_json, revised_prompt: prompt }]
  const known = {
    background: 'opaque',
    output_format: 'png',
    quality: quality ?? 'medium',
    size: '1024x1024',
    usage: USAGE,
  }
  return ok({ created: Math.floor(Date.now() / 1000), data, ...(isGptImage ? known : {}) })
}
