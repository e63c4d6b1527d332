import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { drawPng } from '../../infra/sandbox/upstream/drawing/draw-png.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'
import { walkFrames } from '../../shared/audio/walk-frames.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import { createOpenAiCompatibleImage } from '../../workers/providers/openai-compatible/image.ts'
import { createOpenAiCompatibleSpeech } from '../../workers/providers/openai-compatible/speech.ts'
import { createOpenAiCompatibleTranscription } from '../../workers/providers/openai-compatible/transcription.ts'
import type { SpeechInput, TranscriptionInput } from '../../workers/providers/provider.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { createExpiringHttp } from './expiring-http.ts'

const apiKey = 'sk-CANARY-key'
const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`./fixtures/openai-compatible/${name}.json`, import.meta.url), 'utf8'))

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream({ apiKey })
})
afterEach(() => {
  upstream.setFaults([])
  upstream.clearCalls()
})
afterAll(() => upstream.stop())

const connection = (upstreamModel: string, http: SendHttp = createHttp({ fetch })) => ({
  baseUrl: `${upstream.url}/v1/`,
  apiKey,
  upstreamModel,
  http,
})
const draw = (prompt = 'A tram', settings: { sendResponseFormat?: boolean } = {}, http?: SendHttp) =>
  createOpenAiCompatibleImage({ ...connection('simulated-image', http), ...settings }).generateImage(
    { prompt, size: '1024x1024' },
    { timeoutMs: PATIENCE_MS },
  )
const speak = (changes: Partial<SpeechInput> = {}, http?: SendHttp) =>
  createOpenAiCompatibleSpeech(connection('simulated-speech', http)).synthesize(
    { text: 'Mind the step.', voice: 'open-darian', speed: 1, ...changes },
    { timeoutMs: PATIENCE_MS },
  )
const transcribe = (changes: Partial<TranscriptionInput> = {}, http?: SendHttp) =>
  createOpenAiCompatibleTranscription(connection('simulated-whisper', http)).transcribe(
    { audio: dialogue, diarize: false, timestamps: 'none', tagAudioEvents: false, needsWords: false, ...changes },
    { timeoutMs: PATIENCE_MS },
  )

const dialogue = readFileSync(new URL('../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url))

/** The body of the first call, as the upstream's log keeps it: each field as JSON. */
const sentJson = (): Record<string, unknown> =>
  Object.fromEntries(Object.entries(upstream.calls[0]?.fields ?? {}).map(([name, json]) => [name, JSON.parse(json)]))
function answerWith(body: unknown, status = 200, headers: Record<string, string> = {}) {
  upstream.setFaults([{ fault: 'status', status, body, headers }])
}

const definite = { outcome: 'failed', certainty: 'definite' } as const
const unknownOutcome = { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown' } as const

describe('images', () => {
  test('the image arrives unchanged, its type is told by its bytes', async () => {
    const outcome = await draw('A tram in the rain')
    expect(outcome).toEqual({
      outcome: 'generated',
      image: { bytes: drawPng('A tram in the rain'), contentType: 'image/png' },
      revisedPrompt: 'A tram in the rain',
    })
    expect(sentJson()).toEqual({
      model: 'simulated-image',
      prompt: 'A tram in the rain',
      n: 1,
      size: '1024x1024',
      response_format: 'b64_json',
    })
  })

  test('a model that refuses response_format is not sent it', async () => {
    expect(await draw('A tram', { sendResponseFormat: false })).toMatchObject({ outcome: 'generated' })
    expect(sentJson()).not.toHaveProperty('response_format')
  })

  test.each([
    ['image/jpeg', 'ffd8ffe000104a464946'],
    ['image/webp', '5249464624000000574542505650382018'],
  ])('%s', async (contentType, hex) => {
    answerWith({ created: 1, data: [{ b64_json: Buffer.from(hex, 'hex').toString('base64') }] })
    const outcome = await draw()
    expect(outcome).toMatchObject({ image: { contentType } })
    expect(outcome).not.toHaveProperty('revisedPrompt')
  })

  test.each([
    ['no item', { data: [] }],
    ['no list', { created: 1 }],
    ['no bytes', { data: [{ b64_json: '' }] }],
  ])('%s is empty output', async (_name, body) => {
    answerWith(body)
    expect(await draw()).toEqual({ ...definite, code: 'provider_empty_output', reason: 'HTTP 200 without an image' })
  })

  test.each([
    ['a URL in place of the image', { data: [{ url: 'https://example.com/CANARY.png' }] }],
    ['bytes of another kind', { data: [{ b64_json: Buffer.from('GIF89aCANARY').toString('base64') }] }],
    ['another shape', { data: 'CANARY' }],
    ['no JSON', '<html>CANARY'],
  ])('%s leaves the outcome unknown', async (_name, body) => {
    answerWith(body)
    const outcome = await draw()
    expect(outcome).toMatchObject(unknownOutcome)
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
  })

  test('a prompt that moderation refuses is rejected, uncharged', async () => {
    expect(await draw('CANARY, please refuse')).toEqual({
      ...definite,
      code: 'provider_rejected',
      reason: 'HTTP 400 moderation_blocked',
    })
    expect(upstream.calls[0]).toMatchObject({ started: false })
  })
})

describe('speech', () => {
  test('an MP3 whose length follows text and speed arrives, and hearing it gives the text back', async () => {
    const text = 'Grüße! Tell me where you are going, and I tell you the most it can cost.'
    const [slow, normal] = [await speak({ text, speed: 0.7 }), await speak({ text })]
    if (slow.outcome !== 'synthesized' || normal.outcome !== 'synthesized') throw new Error('not synthesized')
    const walks = [walkFrames(slow.audio), walkFrames(normal.audio)]
    const frameMs = 24
    const expectedMs = (text.length / 15) * 1000
    for (const [walk, speed] of [
      [walks[0], 0.7],
      [walks[1], 1],
    ] as const) {
      if (walk?.outcome !== 'mp3') throw new Error('no MP3')
      expect(walk.unrecognisedBytes).toBe(0)
      expect(walk.durationMs).toBeGreaterThanOrEqual(expectedMs / speed)
      expect(walk.durationMs).toBeLessThanOrEqual(expectedMs / speed + frameMs + 1)
    }
    const heard = await transcribe({ audio: normal.audio })
    expect(heard).toMatchObject({ transcript: { text } })
  })

  test('the request holds text, voice, format and the exact speed', async () => {
    await speak({ speed: 1.125 })
    expect(sentJson()).toEqual({
      model: 'simulated-speech',
      input: 'Mind the step.',
      voice: 'open-darian',
      response_format: 'mp3',
      speed: 1.125,
    })
  })

  test('no bytes are empty output', async () => {
    upstream.setFaults([{ fault: 'emptyText' }])
    expect(await speak()).toEqual({ ...definite, code: 'provider_empty_output', reason: 'HTTP 200 without audio' })
  })

  test.each([
    ['JSON', { error: 'CANARY' }],
    ['a WAV file', 'RIFF____WAVEfmt CANARY'],
    ['an AAC file', '\xff\xf1\x50\x80'],
  ])('%s is no speech', async (_name, body) => {
    answerWith(body)
    expect(await speak()).toEqual({ ...unknownOutcome, reason: 'HTTP 200 with a body that is no MP3' })
  })
})

describe('transcription', () => {
  test('the audio arrives unchanged, and a plain transcript asks for no word times', async () => {
    const outcome = await transcribe()
    if (outcome.outcome !== 'transcribed') throw new Error(outcome.reason)
    expect(outcome.transcript.text).toMatch(/^Is this the tram to the language models\?/)
    expect(outcome.transcript).toMatchObject({ language: 'english' })
    expect(outcome.transcript).not.toHaveProperty('words')
    expect(upstream.calls[0]).toMatchObject({
      audioSha256: createHash('sha256').update(dialogue).digest('hex'),
      fields: { model: 'simulated-whisper', response_format: 'verbose_json' },
    })
    expect(upstream.calls[0]?.fields).not.toHaveProperty('timestamp_granularities[]')
  })

  test.each([{ needsWords: true }, { timestamps: 'word' as const }, { diarize: true }])(
    '%o gives words without speakers',
    async (changes) => {
      const outcome = await transcribe({ ...changes, language: 'en' })
      if (outcome.outcome !== 'transcribed') throw new Error(outcome.reason)
      expect(upstream.calls[0]?.fields).toMatchObject({ 'timestamp_granularities[]': 'word', language: 'en' })
      expect(outcome.transcript.language).toBe('en')
      const [first] = outcome.transcript.words ?? []
      expect(first).toEqual({ text: 'Is', type: 'word', startSeconds: 0, endSeconds: expect.any(Number) })
    },
  )

  test('times of characters cannot be had: not sent, and left to another deployment', async () => {
    expect(await transcribe({ timestamps: 'character' })).toMatchObject({
      ...definite,
      code: 'provider_unavailable',
      concerns: 'request',
    })
    expect(upstream.calls).toHaveLength(0)
  })

  test('OpenAI’s documented answer', async () => {
    answerWith(fixture('transcription-openai'), 200, { 'x-request-id': 'req_7' })
    expect(await transcribe({ timestamps: 'word' })).toMatchObject({
      vendorRequestId: 'req_7',
      transcript: {
        language: 'english',
        words: [{ text: 'The' }, { text: 'beach' }, { text: 'was', startSeconds: 0.400_000_005_960_464_5 }],
      },
    })
  })

  test('faster-whisper’s spaces go, and a word never ends before it begins', async () => {
    answerWith(fixture('transcription-faster-whisper'))
    expect(await transcribe({ timestamps: 'word' })).toEqual({
      outcome: 'transcribed',
      transcript: {
        text: 'Hello there.',
        language: 'en',
        words: [
          { text: 'Hello', type: 'word', startSeconds: 0, endSeconds: 0.9 },
          { text: 'there.', type: 'word', startSeconds: 0.9, endSeconds: 0.9 },
        ],
      },
    })
  })

  test('a blank transcript is never a result', async () => {
    for (const body of [{ text: ' \n' }, { language: 'en' }]) {
      answerWith(body)
      expect(await transcribe()).toMatchObject({ ...definite, code: 'provider_empty_output' })
    }
  })

  test.each([
    ['missing', undefined],
    ['empty', []],
    ['without times', [{ word: 'CANARY' }]],
  ])('words that were asked for are %s', async (_name, words) => {
    answerWith({ text: 'CANARY', words })
    expect(await transcribe({ timestamps: 'word' })).toEqual({
      ...unknownOutcome,
      reason: 'HTTP 200 without usable words',
    })
  })

  test('bytes that are no audio are rejected', async () => {
    const outcome = await transcribe({ audio: Buffer.from('CANARY, not audio') })
    expect(outcome).toMatchObject({ ...definite, code: 'provider_rejected' })
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
  })
})

describe('faults, for each kind', () => {
  const kinds = {
    image: (http?: SendHttp) => draw('A tram', {}, http),
    speech: (http?: SendHttp) => speak({}, http),
    transcription: (http?: SendHttp) => transcribe({}, http),
  }
  const faults: FaultRuleInput[] = [
    { fault: 'status', status: 500, body: 'CANARY' },
    { fault: 'hang' },
    { fault: 'resetBeforeRead' },
    { fault: 'resetAfterRead' },
    { fault: 'resetMidBody' },
  ]
  const cases = Object.entries(kinds).flatMap(([kind, call]) => faults.map((fault) => [kind, fault, call] as const))

  test.each(cases)('%s after %o: the outcome is unknown, after one call', async (_kind, fault, call) => {
    upstream.setFaults([fault])
    expect(await call(createExpiringHttp(upstream, fault))).toMatchObject(unknownOutcome)
    expect(upstream.calls).toHaveLength(1)
  })

  test.each(Object.entries(kinds))('%s: a 429 is definite', async (_kind, call) => {
    answerWith({ error: { code: 'rate_limit_exceeded' } }, 429, { 'retry-after': '3' })
    expect(await call()).toEqual({
      ...definite,
      code: 'provider_unavailable',
      reason: 'HTTP 429 rate_limit_exceeded',
      retryAfterSeconds: 3,
    })
  })
})
