import { z } from 'zod'
import { speakMp3 } from '../speaking/speak-mp3.ts'
import type { VendorAnswer, VendorRequest, VendorRoute } from '../vendor-route.ts'
import { readJson } from '../writing/json-request.ts'
import { invalidRequest, refuseKey } from './answers.ts'

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
export const speechRoute: VendorRoute = {
  path: '/v1/audio/speech',
  refuseKey,
  answer: speak,
  emptied: () => new Uint8Array(),
}

function speak(request: VendorRequest): VendorAnswer {
  const parsed = speechRequest.safeParse(readJson(request.body))
  if (!parsed.success) return invalidRequest('Invalid value.', parsed.error.issues[0]?.path.join('.') ?? null)
  const { input, voice, speed } = parsed.data
  const format = { sampleRate: 24_000, kilobitsPerSecond: 128 } as const
  const headers = { 'content-type': 'audio/mpeg' }
  return { status: 200, accepted: true, headers, body: speakMp3(input, { speed, format, voice }) }
}
