import { z } from 'zod'
import { speakMp3 } from '../speaking/speak-mp3.ts'
import { ok, type VendorAnswer, type VendorRequest, type VendorRoute } from '../vendor-route.ts'
import { readValid, refuseKey } from './answers.ts'

const speechRequest = z.strictObject({
  model: z.string().min(1),
  input: z.string().min(1).max(4096),
  voice: z.string().min(1),
  response_format: z.literal('mp3').default('mp3'),
  speed: z.number().min(0.25).max(4).default(1),
})

/**
 * `POST /v1/audio/speech` as documented by OpenAI, for MP3.
 *
 * Source: developers.openai.com/api/reference, Create speech; npm package `openai` 7, resources/audio/speech.d.ts.
 */
export const speechRoute: VendorRoute = { path: '/v1/audio/speech', refuseKey, answer: speak }

function speak({ json, lacks }: VendorRequest): VendorAnswer {
  const request = readValid(speechRequest, json)
  if ('status' in request) return request
  const { input, voice, speed } = request
  const audio = lacks === 'output' ? new Uint8Array() : speakMp3(input, { speed, sampleRate: 24_000, voice })
  return ok(audio, { 'content-type': 'audio/mpeg' })
}
