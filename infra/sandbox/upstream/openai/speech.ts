import { z } from 'zod'
import type { Speak } from '../speaking/speak.ts'
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
 * Creates `POST /v1/audio/speech` as documented by OpenAI, for MP3.
 *
 * Source: developers.openai.com/api/reference, Create speech; npm package `openai` 7, resources/audio/speech.d.ts.
 */
export function createSpeechRoute(speak: Speak): VendorRoute {
  return { path: '/v1/audio/speech', refuseKey, answer: (request) => answerSpeech(request, speak) }
}

async function answerSpeech({ json, lacks, signal }: VendorRequest, speak: Speak): Promise<VendorAnswer> {
  const request = readValid(speechRequest, json)
  if ('status' in request) return request
  const { input, voice, speed } = request
  const speech = { text: input, voice, speed, sampleRate: 24_000 } as const
  const audio = lacks === 'output' ? new Uint8Array() : await speak(speech, signal)
  return ok(audio, { 'content-type': 'audio/mpeg' })
}
