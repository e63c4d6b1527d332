import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectNeverRetry } from '../../support/http/expect-refusal.ts'
import { type FormPart, MULTIPART_CONTENT_TYPE, multipartBody } from '../../support/http/multipart-body.ts'
import { generateFrames } from '../../support/media/mp3-generator.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const MODEL = 'speechvendor/scribe-v2'
const MAXIMUM_AUDIO_BYTES = 26_214_400
const MAXIMUM_BASE64_LENGTH = 34_952_536

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())

function send(contentType: string, body: Uint8Array): Promise<Response> {
  return fetch(`${sandbox.info.baseUrl}/v1/audio/transcriptions`, {
    method: 'POST',
    headers: { 'x-idempotency-key': randomUUID(), 'content-type': contentType },
    body: new Uint8Array(body),
  })
}

function sendForm(audio: Uint8Array): Promise<Response> {
  const file: FormPart = { name: 'file', value: audio, fileName: 'speech.mp3', contentType: 'audio/mpeg' }
  return send(MULTIPART_CONTENT_TYPE, multipartBody([{ name: 'model', value: MODEL }, file]))
}

function sendJson(audio: Uint8Array): Promise<Response> {
  const body = { model: MODEL, audio_base64: Buffer.from(audio).toString('base64') }
  return send('application/json', Buffer.from(JSON.stringify(body)))
}

async function expectChallenged(answer: Response): Promise<Response> {
  const body = answer.status === 402 ? '' : await answer.text()
  expect({ status: answer.status, body }).toEqual({ status: 402, body: '' })
  return answer
}

test('accepts 26,214,400 bytes, which are 34,952,536 Base64 characters, in JSON and in a form [spec E70]', async () => {
  // 128 kbit/s at 32 kHz: frames of 576 bytes. The rest is a partial last frame, which is tolerated.
  const largest = new Uint8Array(MAXIMUM_AUDIO_BYTES)
  largest.set(generateFrames(Math.floor(MAXIMUM_AUDIO_BYTES / 576), { sampleRate: 32_000 }, 'largest'))
  expect(Buffer.from(largest).toString('base64')).toHaveLength(MAXIMUM_BASE64_LENGTH)
  await expectChallenged(await sendJson(largest))
  await expectChallenged(await sendForm(largest))
})

test('accepts one hour at the published maximum price, and rejects one more frame as audio_too_long [spec O31]', async () => {
  // A frame at 8 kHz lasts 72 ms.
  const frames = { sampleRate: 8000, bitrate: 8, mode: 'mono' } as const
  const hour = generateFrames(50_000, frames, 'hour')
  const longer = generateFrames(50_001, frames, 'hour')
  const answer = await expectChallenged(await sendForm(hour))
  expect(await answer.json()).toMatchObject({ price: { amount: '0.122' } })
  const expected = { status: 400, code: 'audio_too_long', says: ['3,600,072', '3,600,000'] }
  await expectNeverRetry(await sendForm(longer), { ...expected, param: 'file' })
  await expectNeverRetry(await sendJson(longer), { ...expected, param: 'audio_base64' })
})
