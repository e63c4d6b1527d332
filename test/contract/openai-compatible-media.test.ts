import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { walkFrames } from '#mp3/walk-frames.ts'
import type { SpokenRequest } from '#shared/operations/speech.ts'
import { drawPng } from '../../infra/sandbox/upstream/drawing/draw-png.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'
import { unserviceable } from '../../workers/providers/failures.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import { createOpenAiCompatibleImage, type ImageQuality } from '../../workers/providers/openai-compatible/image.ts'
import { createOpenAiCompatibleSpeech } from '../../workers/providers/openai-compatible/speech.ts'
import { createOpenAiCompatibleTranscription } from '../../workers/providers/openai-compatible/transcription.ts'
import type { TranscriptionInput } from '../../workers/providers/provider.ts'
import { recordingOf } from '../support/media/recording.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { jpegHead, pngHead, webpLossy } from '../unit/operations/sample-images.ts'
import { createExpiringHttp } from './expiring-http.ts'

const API_KEY = 'sk-CANARY-key'
const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`./fixtures/openai-compatible/${name}.json`, import.meta.url), 'utf8'))

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream({ apiKey: API_KEY })
})
afterEach(() => {
  upstream.setFaults([])
  upstream.clearCalls()
})
afterAll(() => upstream.stop())

const connection = (upstreamModel: string, http: SendHttp = createHttp({ fetch })) => ({
  baseUrl: `${upstream.url}/v1/`,
  apiKey: API_KEY,
  upstreamModel,
  http,
})
const draw = (
  prompt = 'A tram',
  settings: { sendResponseFormat?: boolean; quality?: ImageQuality } = {},
  http?: SendHttp,
  model = 'simulated-image',
) =>
  createOpenAiCompatibleImage({ ...connection(model, http), ...settings }).generateImage(
    { prompt, size: '1024x1024' },
    { timeoutMs: PATIENCE_MS },
  )
const speak = (changes: Partial<SpokenRequest> = {}, http?: SendHttp) =>
  createOpenAiCompatibleSpeech(connection('simulated-speech', http), { format: 'mp3' }).synthesize(
    { text: 'Mind the step.', voice: 'open-darian', speed: 1, ...changes },
    { timeoutMs: PATIENCE_MS },
  )
const transcribe = (changes: Partial<TranscriptionInput> = {}, http?: SendHttp) =>
  createOpenAiCompatibleTranscription(connection('simulated-whisper', http), WHISPER).transcribe(
    { audio: dialogue, diarize: false, timestamps: 'none', tagAudioEvents: false, needsWords: false, ...changes },
    { timeoutMs: PATIENCE_MS },
  )

const WHISPER = { path: '/audio/transcriptions', transcript_detail: 'words' } as const
const dialogue = readFileSync(new URL('../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url))

/** Returns the fields of the first call from the simulated vendor's log, which stores each as JSON. */
const sentJson = (): Record<string, unknown> =>
  Object.fromEntries(Object.entries(upstream.calls[0]?.fields ?? {}).map(([name, json]) => [name, JSON.parse(json)]))
/** Google's error on its endpoint of this API. */
const google = (fields: object) => [{ error: { code: 400, message: 'API key not valid.', ...fields } }]
function answerWith(body: unknown, status = 200, headers: Record<string, string> = {}) {
  upstream.setFaults([{ fault: 'status', status, body, headers }])
}

const DEFINITE = { outcome: 'failed', certainty: 'definite' } as const
const EMPTY = { outcome: 'failed', certainty: 'empty', code: 'provider_empty_output' } as const
const UNKNOWN_OUTCOME = { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown' } as const

describe('images', () => {
  test('returns the image unchanged and detects its type from the bytes', async () => {
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

  test('omits response_format for models that reject it', async () => {
    expect(await draw('A tram', { sendResponseFormat: false })).toMatchObject({ outcome: 'generated' })
    expect(sentJson()).not.toHaveProperty('response_format')
  })

  test('sends the quality of the deployment to a GPT image model, and reads its answer', async () => {
    const settings = { sendResponseFormat: false, quality: 'low' } as const
    const outcome = await draw('A tram', settings, undefined, 'gpt-image-2.6-flare')
    expect(outcome).toMatchObject({ outcome: 'generated', image: { contentType: 'image/png' } })
    expect(sentJson()).toEqual({
      model: 'gpt-image-2.6-flare',
      prompt: 'A tram',
      n: 1,
      size: '1024x1024',
      quality: 'low',
    })
  })

  test('a field that the model does not know is for the operator to correct', async () => {
    const outcome = await draw('A tram', {}, undefined, 'gpt-image-2.6-flare')
    expect(outcome).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason: 'HTTP 400 unknown_parameter' })
    answerWith({ error: { message: 'CANARY', type: 'invalid_request_error', param: 'quality', code: null } }, 400)
    expect(await draw()).toEqual({
      ...DEFINITE,
      code: 'provider_unavailable',
      reason: 'HTTP 400 invalid_request_error',
    })
  })

  test.each([
    ['image/jpeg', jpegHead(1024, 1024)],
    ['image/webp', webpLossy(1024, 1024)],
  ])('detects %s from the bytes', async (contentType, bytes) => {
    answerWith({ created: 1, data: [{ b64_json: bytes.toString('base64') }] })
    const outcome = await draw()
    expect(outcome).toMatchObject({ image: { contentType } })
    expect(outcome).not.toHaveProperty('revisedPrompt')
  })

  test.each(['url', 'b64_json'])('reads an image that is a data URL as %s', async (field) => {
    const bytes = pngHead(1024, 1024)
    const image = `data:image/jpeg;base64,${bytes.toString('base64')}`
    answerWith({ created: 1, data: [{ b64_json: null, url: null, [field]: image }] })
    expect(await draw()).toEqual({ outcome: 'generated', image: { bytes, contentType: 'image/png' } })
  })

  test.each([
    ['another size', pngHead(512, 512)],
    ['an unknown type', Buffer.from('GIF89aCANARY')],
  ])('an image of %s is no output', async (_name, bytes) => {
    answerWith({ created: 1, data: [{ b64_json: bytes.toString('base64') }] })
    const outcome = await draw()
    expect(outcome).toMatchObject(EMPTY)
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
  })

  test.each([
    ['no item', { data: [] }],
    ['no list', { created: 1 }],
    ['no bytes', { data: [{ b64_json: '' }] }],
    ['an unexpected shape', { data: 'CANARY' }],
    ['an item of another kind', { data: ['CANARY', null, { b64_json: 7 }] }],
  ])('reports an empty output for %s', async (_name, body) => {
    answerWith(body)
    expect(await draw()).toEqual({ ...EMPTY, reason: 'HTTP 200 without an image' })
  })

  test.each([
    ['a URL in place of the image', { data: [{ url: 'https://example.com/CANARY.png' }] }],
    ['a URL that quotes another', { data: [{ url: 'https://example.com/?data:image/png;base64,CANARY' }] }],
    ['a list', []],
    ['a body that is not JSON', '<html>CANARY'],
  ])('leaves the outcome unknown for %s', async (_name, body) => {
    answerWith(body)
    const outcome = await draw()
    expect(outcome).toMatchObject(UNKNOWN_OUTCOME)
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
  })

  test('reports an image that xAI’s moderation withholds as rejected after the work', async () => {
    const item = { url: '', b64_json: null, mime_type: 'image/jpeg', respect_moderation: false }
    answerWith({ data: [item] })
    const reason = 'HTTP 200 with an image that moderation withheld'
    expect(await draw()).toEqual({ ...EMPTY, code: 'provider_rejected', reason })
    answerWith({ data: [{ ...item, b64_json: pngHead(1024, 1024).toString('base64'), respect_moderation: true }] })
    expect(await draw()).toMatchObject({ outcome: 'generated' })
  })

  test('reports a prompt that moderation refuses as rejected', async () => {
    expect(await draw('CANARY, please refuse')).toEqual({
      ...DEFINITE,
      code: 'provider_rejected',
      reason: 'HTTP 400 moderation_blocked',
    })
    expect(upstream.calls[0]).toMatchObject({ started: false })
  })
})

describe('a refusal by a usage policy', () => {
  const message = 'The request was rejected because it was considered high risk'
  const metadata = { reasons: ['violence'], flagged_input: 'CANARY', provider_name: 'OpenAI', model_slug: 'model' }

  test.each<[string, number, object, string]>([
    ['Kimi', 400, { code: 400, message, param: 'prompt', type: 'content_filter' }, ' content_filter'],
    [
      'Alibaba',
      400,
      { code: 'data_inspection_failed', param: null, message: 'CANARY', type: 'data_inspection_failed' },
      ' data_inspection_failed',
    ],
    ['OpenRouter', 403, { code: 403, message: 'CANARY', metadata }, ''],
    ['OpenRouter, with a code', 403, { code: 'content_policy_violation', metadata: {} }, ' content_policy_violation'],
  ])('is offered to no other vendor: %s', async (_name, status, error, name) => {
    answerWith({ error }, status)
    expect(await draw()).toEqual({ ...DEFINITE, code: 'provider_rejected', reason: `HTTP ${status}${name}` })
  })

  test('is not every 403', async () => {
    answerWith({ error: { code: 403, message: 'Access terminated', metadata: { reasons: [] } } }, 403)
    expect(await draw()).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason: 'HTTP 403' })
  })
})

describe('a refusal that is for the operator', () => {
  const key = 'Incorrect API key provided: xa***ey. You can obtain an API key from https://console.x.ai.'
  const INVALID_KEY = { status: 'INVALID_ARGUMENT', details: [{ '@type': 'ErrorInfo', reason: 'API_KEY_INVALID' }] }

  test.each<[string, unknown, string]>([
    ['a key at xAI', { code: 'Client specified an invalid argument', error: key }, ''],
    ['a key at xAI, escaped', { error: key.replaceAll(' ', '%20') }, ''],
    ['a key at Google', google(INVALID_KEY), ' INVALID_ARGUMENT'],
    ['a key at Google, without a list', google(INVALID_KEY)[0], ' INVALID_ARGUMENT'],
    ['billing at Google', google({ status: 'FAILED_PRECONDITION' }), ' FAILED_PRECONDITION'],
    [
      'terms at Groq',
      { error: { message: 'CANARY', type: 'invalid_request_error', code: 'model_terms_required' } },
      ' model_terms_required',
    ],
    [
      'a model of Together',
      {
        id: 'x',
        error: { message: 'CANARY', type: 'invalid_request_error', param: null, code: 'model_not_available' },
      },
      ' model_not_available',
    ],
    [
      'a model of Kokoro',
      { detail: { error: 'invalid_model', message: 'CANARY', type: 'invalid_request_error' } },
      ' invalid_model',
    ],
  ])('leads to another deployment: %s', async (_name, body, name) => {
    answerWith(body, 400)
    expect(await speak()).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason: `HTTP 400${name}` })
  })

  test.each<[string, number, unknown, string]>([
    [
      'a format of Groq',
      400,
      { error: { message: 'response_format must be one of [wav]', type: 'invalid_request_error' } },
      'HTTP 400 invalid_request_error',
    ],
    [
      'a format of a server on FastAPI',
      422,
      { detail: [{ type: 'literal_error', loc: ['body', 'response_format'], msg: 'CANARY', input: 'CANARY' }] },
      'HTTP 422 literal_error',
    ],
  ])('leads to another deployment: %s', async (_name, status, body, reason) => {
    answerWith(body, status)
    expect(await speak()).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason })
  })

  test.each<[string, number, unknown, string]>([
    [
      'Kokoro',
      400,
      {
        detail: { error: 'validation_error', message: "Voice 'CANARY' not found. Available voices: af_sky", type: 'x' },
      },
      'HTTP 400 validation_error',
    ],
    ['another on FastAPI', 422, { detail: [{ type: 'enum', loc: ['body', 'voice'], msg: 'CANARY' }] }, 'HTTP 422 enum'],
  ])('opens no circuit where it is about the voice: %s', async (_name, status, body, reason) => {
    answerWith(body, status)
    expect(await speak()).toEqual({
      ...DEFINITE,
      code: 'provider_unavailable',
      concerns: 'request',
      isSetupFault: true,
      reason,
    })
  })

  test('tells a model that Groq shut down', async () => {
    answerWith({ error: { message: 'CANARY', type: 'invalid_request_error', code: 'model_decommissioned' } }, 400)
    const reason = 'HTTP 400 model_decommissioned'
    expect(await transcribe()).toEqual({ ...DEFINITE, code: 'provider_unavailable', isGone: true, reason })
  })

  test.each<[string, unknown]>([
    ['an error of Google', google({ status: 'INVALID_ARGUMENT' })],
    ['a message that quotes one', { error: 'The input "Incorrect API key provided" is too short' }],
    ['an empty list', []],
    ['a detail that is text', { detail: 'CANARY' }],
    ['the text itself', { detail: [{ type: 'string_too_long', loc: ['body', 'input'], msg: 'CANARY' }] }],
    ['a place that is none', { detail: [{ type: 'json_invalid', loc: [] }] }],
  ])('is not every other one: %s', async (_name, body) => {
    answerWith(body, 400)
    expect(await speak()).toMatchObject({ ...DEFINITE, code: 'provider_rejected', rejectedBy: 'deployment' })
  })
})

describe('speech', () => {
  test('a voice that the server does not know is for the operator to correct', async () => {
    answerWith({ error: { message: 'CANARY', type: 'invalid_request_error', param: 'voice', code: null } }, 400)
    expect(await speak()).toEqual({
      ...DEFINITE,
      code: 'provider_unavailable',
      concerns: 'request',
      isSetupFault: true,
      reason: 'HTTP 400 invalid_request_error',
    })
  })

  test('returns an MP3 whose length follows text and speed, and which transcribes to the text', async () => {
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
      expect(walk.unrecognizedBytes).toBe(0)
      expect(walk.durationMs).toBeGreaterThanOrEqual(expectedMs / speed)
      expect(walk.durationMs).toBeLessThanOrEqual(expectedMs / speed + frameMs + 1)
    }
    const heard = await transcribe({ audio: normal.audio })
    expect(heard).toMatchObject({ transcript: { text } })
  })

  test('sends text, voice, format and the exact speed', async () => {
    await speak({ speed: 1.125 })
    expect(sentJson()).toEqual({
      model: 'simulated-speech',
      input: 'Mind the step.',
      voice: 'open-darian',
      response_format: 'mp3',
      speed: 1.125,
    })
  })

  test('refuses a field that it does not send, without a call', async () => {
    const unsent = { mood: 'calm' } as Partial<SpokenRequest>
    const reason = 'not sent: this API has no mood'
    expect(await speak(unsent)).toMatchObject({ ...DEFINITE, concerns: 'request', reason })
    expect(upstream.calls).toHaveLength(0)
  })

  test('reports an empty output for an answer without bytes', async () => {
    upstream.setFaults([{ fault: 'emptyText' }])
    expect(await speak()).toEqual({ ...EMPTY, reason: 'HTTP 200 without audio' })
  })

  test.each([
    ['JSON', { error: 'CANARY' }],
    ['a page', '<html>CANARY'],
    ['an AVI file', 'RIFF____AVI CANARY'],
    ['an AAC file', '\xff\xf1\x50\x80'],
  ])('leaves the outcome unknown for %s in place of speech', async (_name, body) => {
    answerWith(body)
    const reason = 'HTTP 200 with a body that is neither MP3, WAV, FLAC nor Ogg'
    expect(await speak()).toEqual({ ...UNKNOWN_OUTCOME, reason })
  })

  test.each([
    ['wav', 'RIFF____WAVEfmt '],
    ['flac', 'fLaC____'],
    ['ogg', 'OggS____'],
  ])('passes on %s, which is converted, as what it is', async (format, body) => {
    answerWith(body)
    expect(await speak()).toMatchObject({ outcome: 'synthesized', format, audio: Buffer.from(body) })
  })
})

describe('transcription', () => {
  test('sends the audio unchanged, and requests no word times for a plain transcript', async () => {
    const outcome = await transcribe()
    if (outcome.outcome !== 'transcribed') throw new Error(outcome.reason)
    expect(outcome.transcript.text).toMatch(/^Is this the tram to the language models\?/)
    expect(outcome.transcript).toMatchObject({ language: 'eng' })
    expect(outcome.transcript).not.toHaveProperty('words')
    expect(upstream.calls[0]).toMatchObject({
      audioSha256: createHash('sha256').update(dialogue).digest('hex'),
      fields: { model: 'simulated-whisper', response_format: 'verbose_json' },
    })
    expect(upstream.calls[0]?.fields).not.toHaveProperty('timestamp_granularities[]')
  })

  test.each([{ needsWords: true }, { timestamps: 'word' as const }])(
    'returns words for %o, and the language in the notation of every deployment',
    async (changes) => {
      const outcome = await transcribe({ ...changes, language: 'en' })
      if (outcome.outcome !== 'transcribed') throw new Error(outcome.reason)
      expect(upstream.calls[0]?.fields).toMatchObject({ 'timestamp_granularities[]': 'word', language: 'en' })
      expect(outcome.transcript.language).toBe('eng')
      const [first] = outcome.transcript.words ?? []
      expect(first).toEqual({ text: 'Is', type: 'word', startSeconds: 0, endSeconds: expect.any(Number) })
    },
  )

  test.each([
    ['character times', { timestamps: 'character' as const }],
    ['speakers', { diarize: true }],
    ['a number of speakers', { diarize: true, numSpeakers: 2 }],
    ['audio events', { tagAudioEvents: true, needsWords: true }],
  ])('does not send a request for %s and leaves it to another deployment', async (_name, changes) => {
    expect(await transcribe(changes)).toMatchObject({ ...DEFINITE, code: 'provider_unavailable', concerns: 'request' })
    expect(upstream.calls).toHaveLength(0)
  })

  test('sends a request whose number of speakers has no effect', async () => {
    expect(await transcribe({ numSpeakers: 2 })).toMatchObject({ outcome: 'transcribed' })
  })

  test.each([
    ['deu', 'de'],
    ['de', 'de'],
    ['en-US', 'en'],
    ['ENG', 'en'],
    ['deu_AT', 'de'],
    ['xx-klingon', 'xx'],
    ['yue', 'yue'],
  ])('sends the language %s as %s', async (language, sent) => {
    await transcribe({ language })
    expect(upstream.calls[0]?.fields).toMatchObject({ language: sent })
  })

  test('leaves a language without a two-letter code to another deployment', async () => {
    const outcome = await transcribe({ language: 'yue' })
    expect(outcome).toEqual(unserviceable('HTTP 400 invalid_language_format'))
  })

  test('leaves a form of more than 25 MiB to another deployment', async () => {
    const outcome = await transcribe({ audio: Buffer.alloc(26_214_400) })
    expect(outcome).toEqual(unserviceable('HTTP 413 server_error'))
    expect(upstream.calls[0]).toMatchObject({ started: false })
  })

  test('leaves a recording that is too long for the model to another deployment', async () => {
    const message = 'audio duration 1830.530612 seconds is longer than 1400 seconds which is the maximum for this model'
    answerWith({ error: { message, type: 'invalid_request_error', param: null, code: 'invalid_value' } }, 400)
    expect(await transcribe()).toEqual(unserviceable('HTTP 400 invalid_value'))
  })

  test.each([
    ['german', 'deu'],
    ['Haitian Creole', 'hat'],
    ['pt-BR', 'por'],
    ['cmn', 'cmn'],
    ['a language called CANARY', undefined],
    [null, undefined],
  ])('reports the language %s as %s', async (language, expected) => {
    answerWith({ text: 'Hallo.', language })
    const outcome = await transcribe()
    expect(outcome.outcome === 'transcribed' && outcome.transcript.language).toBe(expected)
  })

  test('translates OpenAI’s documented answer', async () => {
    answerWith(fixture('transcription-openai'), 200, { 'x-request-id': 'req_7' })
    expect(await transcribe({ timestamps: 'word' })).toMatchObject({
      vendorRequestId: 'req_7',
      transcript: {
        language: 'eng',
        words: [{ text: 'The' }, { text: 'beach' }, { text: 'was', startSeconds: 0.400_000_005_960_464_5 }],
      },
    })
  })

  test('trims faster-whisper’s words, which never end before they start', async () => {
    answerWith(fixture('transcription-faster-whisper'))
    expect(await transcribe({ timestamps: 'word' })).toEqual({
      outcome: 'transcribed',
      transcript: {
        text: 'Hello there.',
        language: 'eng',
        words: [
          { text: 'Hello', type: 'word', startSeconds: 0, endSeconds: 0.9 },
          { text: 'there.', type: 'word', startSeconds: 0.9, endSeconds: 0.9 },
        ],
      },
    })
  })

  test.each([
    ['no text', { language: 'en' }],
    ['null', { text: null }],
  ])('reports an empty output for %s in place of the transcript', async (_name, body) => {
    answerWith(body)
    expect(await transcribe()).toMatchObject(EMPTY)
  })

  test('a recording without speech has an empty transcript, and no words', async () => {
    const silence = recordingOf('(rain)')
    expect(await transcribe({ audio: silence })).toEqual({
      outcome: 'transcribed',
      transcript: { text: '', language: 'eng' },
    })
    expect(await transcribe({ audio: silence, timestamps: 'word' })).toMatchObject({
      transcript: { text: '', words: [] },
    })
    answerWith({ text: ' \n', language: 'de' })
    expect(await transcribe({ timestamps: 'word' })).toEqual({
      outcome: 'transcribed',
      transcript: { text: '', language: 'deu', words: [] },
    })
  })

  test.each([
    ['missing', undefined],
    ['empty', []],
    ['null', null],
    ['a text', 'CANARY'],
    ['without times', [{ word: 'CANARY' }]],
    ['without any word', [{ start: 0, end: 1 }, null, 7]],
  ])('delivers the transcript without words when requested ones are %s, and notes it', async (_name, words) => {
    answerWith({ text: 'Mind the step.', words })
    expect(await transcribe({ timestamps: 'word' })).toEqual({
      outcome: 'transcribed',
      transcript: { text: 'Mind the step.', words: [] },
      mended: ['words'],
    })
  })

  test('an odd word costs no other', async () => {
    const words = [{ word: 'Mind', start: 0, end: '0.5' }, { word: 7 }, { word: 'step.', start: -1, end: 1e300 }]
    answerWith({ words })
    expect(await transcribe({ timestamps: 'word' })).toEqual({
      outcome: 'transcribed',
      transcript: {
        text: 'Mind step.',
        words: [
          { text: 'Mind', type: 'word', startSeconds: 0, endSeconds: 0.5 },
          { text: 'step.', type: 'word', startSeconds: 0.5, endSeconds: 0.5 },
        ],
      },
      mended: ['words.end', 'words.word', 'words', 'words.start'],
    })
  })

  test('reports bytes that are not audio as rejected', async () => {
    const outcome = await transcribe({ audio: Buffer.from('CANARY, not audio') })
    expect(outcome).toMatchObject({ ...DEFINITE, code: 'provider_rejected' })
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
  })
})

describe('failures of every kind of call', () => {
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

  test.each(cases)('leaves the outcome of %s unknown after one call: %o', async (_kind, fault, call) => {
    upstream.setFaults([fault])
    expect(await call(createExpiringHttp(upstream, fault))).toMatchObject(UNKNOWN_OUTCOME)
    expect(upstream.calls).toHaveLength(1)
  })

  test.each(Object.entries(kinds))('fails definitely on a 405, which a wrong path gets: %s', async (_kind, call) => {
    answerWith('<html>405 Not Allowed', 405)
    expect(await call()).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason: 'HTTP 405' })
  })

  test.each(Object.entries(kinds))('fails definitely on a 429: %s', async (_kind, call) => {
    answerWith({ error: { code: 'rate_limit_exceeded' } }, 429, { 'retry-after': '3' })
    expect(await call()).toEqual({
      ...DEFINITE,
      code: 'provider_unavailable',
      reason: 'HTTP 429 rate_limit_exceeded',
      retryAfterSeconds: 3,
    })
  })

  test.each([
    ['7', 7],
    ['0', 0],
    ['1.5', 2],
    ['0.493', 1],
    [
      new Date(Date.now() + 3_600_000).toUTCString(),
      expect.toSatisfy((seconds: number) => seconds > 3000 && seconds <= 3600),
    ],
    [new Date(Date.now() - 3_600_000).toUTCString(), undefined],
    ['Wed, 99 Foo 2026 07:28:00 GMT', undefined],
    ['soon', undefined],
    ['-1', undefined],
  ])('asks again after what retry-after says: %s', async (value, expected) => {
    answerWith({}, 429, { 'retry-after': value })
    const outcome = await draw()
    expect(outcome.outcome === 'failed' && outcome.retryAfterSeconds).toEqual(expected)
  })
})
