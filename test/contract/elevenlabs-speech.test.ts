import { readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import type { SpokenRequest } from '#shared/operations/speech.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'
import { createElevenLabsSpeech } from '../../workers/providers/elevenlabs/speech.ts'
import { createElevenLabsTranscription } from '../../workers/providers/elevenlabs/transcription.ts'
import { isUnserviceable, unserviceable } from '../../workers/providers/failures.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { createExpiringHttp } from './expiring-http.ts'

const API_KEY = 'sk_CANARY_key_0f2c'
const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`./fixtures/elevenlabs/${name}.json`, import.meta.url), 'utf8'))

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream({ apiKey: API_KEY })
})
afterEach(() => {
  upstream.setFaults([])
  upstream.clearCalls()
})
afterAll(() => upstream.stop())

interface Setting {
  baseUrl?: string
  key?: string
  http?: SendHttp
  model?: string
}

const http = createHttp({ fetch })

function synthesize(changes: Partial<SpokenRequest> = {}, setting: Setting = {}) {
  const provider = createElevenLabsSpeech({
    baseUrl: setting.baseUrl ?? upstream.url,
    apiKey: setting.key ?? API_KEY,
    upstreamModel: setting.model ?? 'eleven_flash_v2_5',
    http: setting.http ?? http,
  })
  return provider.synthesize(
    { text: 'Mind the step.', voice: 'eleven-darian', speed: 1, ...changes },
    { timeoutMs: PATIENCE_MS },
  )
}

async function synthesized(changes: Partial<SpokenRequest> = {}) {
  const outcome = await synthesize(changes)
  if (outcome.outcome !== 'synthesized') throw new Error(outcome.reason)
  return outcome.audio
}

function answerWith(body: unknown, status = 200, headers: Record<string, string> = {}) {
  upstream.setFaults([{ fault: 'status', status, body, headers }])
}

const DEFINITE = { outcome: 'failed', certainty: 'definite' } as const
const EMPTY = { outcome: 'failed', certainty: 'empty', code: 'provider_empty_output' } as const
const UNKNOWN_OUTCOME = { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown' } as const

describe('request', () => {
  test('refuses a field that it does not send, without a call', async () => {
    const unsent = { mood: 'calm' } as Partial<SpokenRequest>
    const reason = 'not sent: this API has no mood'
    expect(await synthesize(unsent)).toMatchObject({ ...DEFINITE, concerns: 'request', reason })
    expect(upstream.calls).toHaveLength(0)
  })

  test('sends text, model, voice, speed and format', async () => {
    await synthesized({ text: 'Grüße 🚋', speed: 1.125 })
    expect(upstream.calls).toHaveLength(1)
    expect(upstream.calls[0]?.fields).toEqual({
      text: '"Grüße 🚋"',
      model_id: '"eleven_flash_v2_5"',
      voice_id: 'eleven-darian',
      output_format: 'mp3_44100_128',
      voice_settings: '{"speed":1.125}',
    })
  })

  test('encodes a voice so that it cannot change the path', async () => {
    await synthesize({ voice: '../v1/speech-to-text?a=b' })
    expect(upstream.calls[0]).toMatchObject({
      route: '/v1/text-to-speech/{voice_id}',
      fields: { voice_id: '../v1/speech-to-text?a=b' },
    })
  })

  test.each([
    ['an invalid base URL', { baseUrl: 'upstream' }],
    ['a key that cannot be a header', { key: 'sk_CANARY\nkey' }],
  ])('rejects %s at creation without quoting it', (_name, setting) => {
    expect(() => synthesize({}, setting)).toThrow(/^(?!.*CANARY)The ElevenLabs /)
  })
})

describe('speech', () => {
  test.each([0.7, 1, 1.2])('returns a whole MP3 of the expected length at speed %d', async (speed) => {
    const text = 'a'.repeat(300)
    const walk = walkFrames(await synthesized({ text, speed }))
    if (walk.outcome !== 'mp3') throw new Error(walk.found)
    expect(walk).toMatchObject({ unrecognizedBytes: 0, discontinuities: 0, parts: [{ sampleRate: 44_100 }] })
    expect(walk.durationMs).toBeGreaterThanOrEqual(20_000 / speed)
    expect(walk.durationMs).toBeLessThanOrEqual(20_000 / speed + 28)
  })

  test('returns speech that transcribes to its text', async () => {
    const text = 'If the tram breaks down, the coins roll back to you. Così è.'
    const audio = await synthesized({ text })
    const provider = createElevenLabsTranscription({
      baseUrl: upstream.url,
      apiKey: API_KEY,
      upstreamModel: 'scribe_v2',
      http,
    })
    const heard = await provider.transcribe(
      { audio, diarize: false, timestamps: 'none', tagAudioEvents: false, needsWords: false },
      { timeoutMs: PATIENCE_MS },
    )
    expect(heard).toMatchObject({ transcript: { text } })
  })

  test('keeps the vendor’s request id', async () => {
    expect(await synthesize()).toMatchObject({ vendorRequestId: expect.stringMatching(/^[\w-]{20}$/) })
  })
})

describe('failures', () => {
  test('reports an empty output for an answer without bytes', async () => {
    upstream.setFaults([{ fault: 'emptyText' }])
    expect(await synthesize()).toMatchObject(EMPTY)
  })

  test('leaves the outcome unknown for bytes that are not an MP3', async () => {
    answerWith({ CANARY: 1 })
    expect(await synthesize()).toEqual({ ...UNKNOWN_OUTCOME, reason: 'HTTP 200 with a body that is not an MP3' })
  })

  test('reports a text that the vendor refuses as rejected, without the vendor’s message', async () => {
    answerWith(fixture('error-invalid-parameters'), 400)
    expect(await synthesize()).toMatchObject({
      ...DEFINITE,
      code: 'provider_rejected',
      reason: 'HTTP 400 invalid_parameters',
    })
  })

  test.each([['a wrong key', {}, { key: 'sk_CANARY_wrong' }, 'HTTP 401 invalid_api_key']])(
    'blames the deployment for %s',
    async (_name, changes, setting, reason) => {
      const outcome = await synthesize(changes, setting)
      expect(outcome).toMatchObject({ ...DEFINITE, code: 'provider_unavailable', reason })
      expect(upstream.calls[0]).toMatchObject({ started: false })
    },
  )

  test.each([
    ['an unknown voice', 'unknown-CANARY', 'HTTP 400 voice_not_found'],
    ['a voice that its plan may not use', 'library-CANARY', 'HTTP 400 invalid_uid'],
  ])(
    'blames the deployment’s setup for %s, and keeps its circuit closed for other voices',
    async (_name, voice, reason) => {
      const outcome = await synthesize({ voice })
      expect(outcome).toEqual({
        ...DEFINITE,
        code: 'provider_unavailable',
        concerns: 'request',
        isSetupFault: true,
        reason,
        vendorRequestId: expect.any(String),
      })
      expect(outcome.outcome === 'failed' && isUnserviceable(outcome)).toBe(false)
      expect(upstream.calls[0]).toMatchObject({ started: false })
    },
  )

  test.each([400, 404])('recognizes a voice that the account does not have with status %i', async (status) => {
    answerWith({ detail: { status: 'voice_not_found', message: 'CANARY' } }, status)
    expect(await synthesize()).toMatchObject({ code: 'provider_unavailable', isSetupFault: true })
  })

  test.each([
    [400, 'max_character_limit_exceeded'],
    [401, 'max_character_limit_exceeded'],
    [413, 'request_too_large'],
  ])('leaves what exceeds a limit of the model to another deployment: %i %s', async (status, code) => {
    answerWith({ detail: { status: code, message: 'CANARY' } }, status)
    const outcome = await synthesize()
    expect(outcome).toEqual({ ...unserviceable(`HTTP ${status} ${code}`) })
  })

  test.each(['quota_exceeded', 'invalid_api_key', 'model_not_found', 'model_can_not_do_text_to_speech'])(
    'blames the deployment for 400 %s, which every request meets',
    async (code) => {
      answerWith({ detail: { status: code, message: 'CANARY' } }, 400)
      expect(await synthesize()).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason: `HTTP 400 ${code}` })
    },
  )

  test.each([400, 401, 403])('does not show content that violates a policy to another vendor (%i)', async (status) => {
    answerWith({ detail: { status: 'content_against_policy', message: 'CANARY' } }, status)
    const outcome = await synthesize()
    expect(outcome).toEqual({ ...DEFINITE, code: 'provider_rejected', reason: `HTTP ${status} content_against_policy` })
  })

  test('a model that was shut down is gone', async () => {
    answerWith({ detail: { status: 'gone' } }, 410)
    expect(await synthesize()).toMatchObject({ ...DEFINITE, code: 'provider_unavailable', isGone: true })
  })

  test('passes on the retry-after of a 429', async () => {
    answerWith({ detail: { status: 'too_many_concurrent_requests' } }, 429, { 'retry-after': '2' })
    expect(await synthesize()).toMatchObject({ code: 'provider_unavailable', retryAfterSeconds: 2 })
  })

  test.each<[FaultRuleInput, string]>([
    [{ fault: 'status', status: 500, body: { detail: 'CANARY' } }, 'HTTP 500'],
    [{ fault: 'hang' }, `no complete response within ${PATIENCE_MS} ms`],
    [{ fault: 'slowBody', everyMs: 100 }, `HTTP 200, no complete response within ${PATIENCE_MS} ms`],
    [{ fault: 'resetBeforeRead' }, 'EPIPE|ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetAfterRead' }, 'ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetMidBody' }, 'HTTP 200, (ECONNRESET|UND_ERR_SOCKET)'],
  ])('leaves the outcome unknown after one call: %o', async (rule, reason) => {
    upstream.setFaults([{ route: '/v1/text-to-speech/{voice_id}', ...rule }])
    const outcome = await synthesize({}, { http: createExpiringHttp(upstream, rule) })
    expect(outcome).toMatchObject(UNKNOWN_OUTCOME)
    expect(outcome.outcome === 'failed' && outcome.reason).toMatch(new RegExp(`^(${reason})$`))
    expect(upstream.calls).toHaveLength(1)
  })
})
