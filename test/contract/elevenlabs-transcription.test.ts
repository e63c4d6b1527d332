import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'
import { createElevenLabsTranscription } from '../../workers/providers/elevenlabs/transcription.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import type { TranscriptionInput } from '../../workers/providers/provider.ts'
import { recordingOf } from '../support/media/recording.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { until } from '../support/until.ts'
import { createExpiringHttp } from './expiring-http.ts'

const API_KEY = 'sk_CANARY_key_0f2c'
const sample = (name: string) => readFileSync(new URL(`../../infra/sandbox/samples/${name}`, import.meta.url))
const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`./fixtures/elevenlabs/${name}.json`, import.meta.url), 'utf8'))

const dialogue = sample('two-at-the-stop.mp3')
const INPUT: TranscriptionInput = {
  audio: dialogue,
  diarize: false,
  timestamps: 'none',
  tagAudioEvents: false,
  needsWords: false,
}

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
  timeoutMs?: number
  signal?: AbortSignal
}

function transcribe(changes: Partial<TranscriptionInput> = {}, setting: Setting = {}) {
  const provider = createElevenLabsTranscription({
    baseUrl: setting.baseUrl ?? upstream.url,
    apiKey: setting.key ?? API_KEY,
    upstreamModel: 'scribe_v2',
    http: setting.http ?? createHttp({ fetch }),
  })
  const { timeoutMs = PATIENCE_MS, signal } = setting
  return provider.transcribe({ ...INPUT, ...changes }, { timeoutMs, ...(signal === undefined ? {} : { signal }) })
}

async function transcribed(changes: Partial<TranscriptionInput> = {}) {
  const outcome = await transcribe(changes)
  if (outcome.outcome !== 'transcribed') throw new Error(outcome.reason)
  return outcome.transcript
}

function answerWith(body: unknown, status = 200, headers: Record<string, string> = {}) {
  upstream.setFaults([{ fault: 'status', status, body, headers }])
}

const DEFINITE = { outcome: 'failed', certainty: 'definite' } as const
const EMPTY = { outcome: 'failed', certainty: 'empty', code: 'provider_empty_output' } as const
const UNKNOWN_OUTCOME = { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown' } as const

describe('request', () => {
  test('sends the audio unchanged and every option that has a vendor default', async () => {
    await transcribed()
    expect(upstream.calls).toHaveLength(1)
    expect(upstream.calls[0]).toMatchObject({
      audioSha256: createHash('sha256').update(dialogue).digest('hex'),
      audioBytes: dialogue.byteLength,
      fields: { model_id: 'scribe_v2', timestamps_granularity: 'none', diarize: 'false', tag_audio_events: 'false' },
      state: 'answered',
    })
    expect(Object.keys(upstream.calls[0]?.fields ?? {})).toHaveLength(4)
  })

  test('sends language and number of speakers, the latter even without diarization', async () => {
    await transcribed({ language: 'en', numSpeakers: 2 })
    expect(upstream.calls[0]?.fields).toMatchObject({ language_code: 'en', num_speakers: '2', diarize: 'false' })
  })

  test.each([
    [{ needsWords: true }, 'word'],
    [{ diarize: true }, 'word'],
    [{ timestamps: 'word' as const }, 'word'],
    [{ timestamps: 'character' as const }, 'character'],
    [{ tagAudioEvents: true }, 'none'],
  ])('requests for options %o the granularity %s', async (changes, granularity) => {
    await transcribed(changes)
    expect(upstream.calls[0]?.fields['timestamps_granularity']).toBe(granularity)
  })

  test('accepts a base URL that ends in a slash', async () => {
    const outcome = await transcribe({}, { baseUrl: `${upstream.url}/` })
    expect(outcome.outcome).toBe('transcribed')
  })

  test.each([
    ['an invalid base URL', { baseUrl: 'upstream' }],
    ['a key that cannot be a header', { key: 'sk_CANARY\nkey' }],
  ])('rejects %s at creation without quoting it', (_name, setting) => {
    expect(() => transcribe({}, setting)).toThrow(/^(?!.*CANARY)The ElevenLabs /)
  })
})

describe('transcripts of the simulated vendor', () => {
  test('returns text, language and probability without words for a plain transcript', async () => {
    const transcript = await transcribed({ audio: sample('biglietteria-cortese.mp3') })
    expect(transcript.text).toMatch(/^Buongiorno! Sono la biglietteria più cortese della città\./)
    expect(transcript).toMatchObject({ language: 'ita', languageProbabilityMillionths: 987_654 })
    expect(transcript).not.toHaveProperty('words')
  })

  test('returns words with speakers whose concatenation is the text', async () => {
    const { words = [], text } = await transcribed({ diarize: true })
    expect(words.map((word) => word.text).join('')).toBe(text)
    expect(new Set(words.map(({ speaker }) => speaker))).toEqual(new Set(['speaker_0', 'speaker_1']))
    expect(words.every(({ startSeconds, endSeconds }) => startSeconds <= endSeconds && endSeconds <= 23.7)).toBe(true)
    expect(words[0]).not.toHaveProperty('characters')
  })

  test('tags audio events only on request', async () => {
    const withEvents = await transcribed({ timestamps: 'word', tagAudioEvents: true })
    const without = await transcribed({ timestamps: 'word' })
    const events = withEvents.words?.filter(({ type }) => type === 'audio_event').map(({ text }) => text)
    expect(events).toEqual(['(bell)'])
    expect(without.text).not.toContain('(bell)')
  })

  test('returns character times that cover their word', async () => {
    const { words = [] } = await transcribed({ timestamps: 'character' })
    const [first] = words
    expect(first?.characters?.map(({ text }) => text)).toEqual(['I', 's'])
    expect(first?.characters?.at(-1)?.endSeconds).toBe(first?.endSeconds)
  })
})

describe('transcripts of documented answers', () => {
  test('translates a documented plain answer', async () => {
    answerWith(fixture('plain'))
    expect(await transcribe()).toEqual({
      outcome: 'transcribed',
      vendorRequestId: 'tr_plain',
      transcript: { text: 'With a soft voice.', language: 'eng', languageProbabilityMillionths: 982_130 },
    })
  })

  test('translates a diarized answer with an event, and caps the probability at 1', async () => {
    answerWith(fixture('diarized-with-event'))
    const transcript = await transcribed({ diarize: true, tagAudioEvents: true })
    expect(transcript.languageProbabilityMillionths).toBe(1_000_000)
    expect(transcript.words?.map(({ text, type, speaker }) => [text, type, speaker])).toEqual([
      ['Hello.', 'word', 'speaker_0'],
      [' ', 'spacing', undefined],
      ['(laughter)', 'audio_event', 'speaker_1'],
      [' ', 'spacing', 'speaker_1'],
      ['Hi!', 'word', 'speaker_1'],
    ])
  })

  test('returns no speakers without diarization, although the vendor names one', async () => {
    answerWith(fixture('plain'))
    const { words = [] } = await transcribed({ timestamps: 'word' })
    expect(words).toHaveLength(7)
    expect(words[0]).toEqual({ text: 'With', type: 'word', startSeconds: 0.119, endSeconds: 0.259 })
  })

  test('translates the documented characters', async () => {
    answerWith(fixture('characters'))
    const { words = [] } = await transcribed({ timestamps: 'character' })
    expect(words.map(({ characters }) => characters)).toEqual([
      [
        { text: 'O', startSeconds: 0.1, endSeconds: 0.2 },
        { text: 'h', startSeconds: 0.2, endSeconds: 0.3 },
      ],
      [],
      [
        { text: 'n', startSeconds: 0.4, endSeconds: 0.6 },
        { text: 'o', startSeconds: 0.6, endSeconds: 0.8 },
      ],
    ])
  })

  test('takes a missing time from its neighbor', async () => {
    answerWith(fixture('null-times'))
    const { words = [] } = await transcribed({ timestamps: 'word' })
    expect(words.map(({ startSeconds, endSeconds }) => [startSeconds, endSeconds])).toEqual([
      [0, 0.4],
      [0.4, 0.5],
      [0.5, 0.5],
    ])
  })

  test('replaces characters that PostgreSQL cannot store', async () => {
    answerWith('{"text":"a\\u0000b\\ud800c"}')
    expect((await transcribed()).text).toBe('ab\ufffdc')
  })

  test('ignores unknown kinds of words in a transcript without words', async () => {
    answerWith({ text: 'CANARY', words: [{ text: 'CANARY', type: 'hologram' }] })
    expect((await transcribed()).text).toBe('CANARY')
  })
})

describe('definite failures before any work', () => {
  const BY_DEPLOYMENT = { code: 'provider_rejected', rejectedBy: 'deployment' }
  test.each([
    [400, BY_DEPLOYMENT],
    [413, { code: 'provider_unavailable', concerns: 'request' }],
    [422, BY_DEPLOYMENT],
    [401, { code: 'provider_unavailable' }],
    [402, { code: 'provider_unavailable' }],
    [403, { code: 'provider_unavailable' }],
    [404, { code: 'provider_unavailable' }],
    [405, { code: 'provider_unavailable' }],
    [429, { code: 'provider_unavailable' }],
  ])('fails definitely on %i with %o', async (status, failure) => {
    answerWith({ detail: { status: 'some_code', message: 'CANARY' } }, status)
    expect(await transcribe()).toEqual({ ...DEFINITE, ...failure, reason: `HTTP ${status} some_code` })
  })

  test('leaves a language that the model does not have to another deployment', async () => {
    expect(await transcribe({ language: 'klingonese' })).toMatchObject({
      code: 'provider_unavailable',
      concerns: 'request',
      reason: 'HTTP 400 unsupported_language',
    })
  })

  test('keeps the vendor’s error code and request id, but not its message', async () => {
    answerWith(fixture('error-invalid-parameters'), 400)
    expect(await transcribe()).toEqual({
      ...DEFINITE,
      code: 'provider_rejected',
      rejectedBy: 'deployment',
      reason: 'HTTP 400 invalid_parameters',
      vendorRequestId: '3c807fc4c3a1705f9638ecc764a91c01',
    })
  })

  test('keeps the name of a refused field, but not its value', async () => {
    answerWith(fixture('error-invalid-field'), 422)
    expect(await transcribe()).toMatchObject({ code: 'provider_rejected', reason: 'HTTP 422 int_parsing num_speakers' })
  })

  test('does not blame the input for an account problem with status 400', async () => {
    answerWith(fixture('error-invalid-key'), 400)
    expect(await transcribe()).toMatchObject({ ...DEFINITE, code: 'provider_unavailable' })
  })

  test('passes on the retry-after of a 429', async () => {
    answerWith({ detail: { code: 'rate_limit_exceeded' } }, 429, { 'retry-after': '7' })
    expect(await transcribe()).toMatchObject({ code: 'provider_unavailable', retryAfterSeconds: 7 })
  })

  test('fails definitely on a refusal without a readable body', async () => {
    answerWith('<html>CANARY</html>', 403)
    expect(await transcribe()).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason: 'HTTP 403' })
  })

  test('the simulated vendor rejects a wrong key', async () => {
    const outcome = await transcribe({}, { key: 'sk_CANARY_wrong' })
    expect(outcome).toMatchObject({ ...DEFINITE, code: 'provider_unavailable', reason: 'HTTP 401 invalid_api_key' })
    expect(upstream.calls[0]).toMatchObject({ started: false, status: 401 })
  })

  test('the simulated vendor rejects bytes that are not audio', async () => {
    const outcome = await transcribe({ audio: Buffer.from('CANARY, not audio') })
    expect(outcome).toMatchObject({ ...DEFINITE, code: 'provider_rejected', reason: 'HTTP 400 invalid_content' })
  })

  test('a recording without speech has an empty transcript, and no words', async () => {
    const silence = recordingOf('(rain)')
    expect(await transcribed({ audio: silence })).toEqual({
      text: '',
      language: 'eng',
      languageProbabilityMillionths: 987_654,
    })
    expect(await transcribed({ audio: silence, diarize: true })).toMatchObject({ text: '', words: [] })
    answerWith({ text: ' \n' })
    expect(await transcribed({ timestamps: 'word' })).toEqual({ text: '', words: [] })
  })

  test('reports an empty output for an answer without a transcript', async () => {
    upstream.setFaults([{ fault: 'emptyText' }])
    expect(await transcribe()).toMatchObject(EMPTY)
    answerWith({ language_code: 'en' })
    expect(await transcribe()).toMatchObject(EMPTY)
  })
})

describe('definite failures of requests that were not sent', () => {
  test('fails definitely when the connection is refused', async () => {
    const port = await closedPort()
    const outcome = await transcribe({}, { baseUrl: `http://127.0.0.1:${port}` })
    expect(outcome).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason: 'not sent: ECONNREFUSED' })
  })

  test.each([
    { code: 'ENOTFOUND', syscall: 'getaddrinfo' },
    { code: 'EAI_AGAIN', syscall: 'getaddrinfo' },
    { code: 'ETIMEDOUT', syscall: 'connect' },
    { code: 'EHOSTUNREACH', syscall: 'connect' },
    { code: 'UND_ERR_CONNECT_TIMEOUT' },
    { code: 'ERR_TLS_CERT_ALTNAME_INVALID' },
    { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' },
  ])('fails definitely on a connection error: %o', async (fields) => {
    const outcome = await transcribe({}, { http: failing(fields) })
    expect(outcome).toEqual({ ...DEFINITE, code: 'provider_unavailable', reason: `not sent: ${fields.code}` })
  })

  test('fails definitely when every address of a host refuses the connection', async () => {
    const refused = Object.assign(new Error('CANARY'), { code: 'ECONNREFUSED', syscall: 'connect' })
    const cause = Object.assign(new AggregateError([refused, refused]), { code: 'ECONNREFUSED' })
    const http = createHttp({ fetch: () => Promise.reject(new TypeError('fetch failed', { cause })) })
    expect(await transcribe({}, { http })).toMatchObject({ ...DEFINITE, reason: 'not sent: ECONNREFUSED' })
  })

  test('fails definitely, without a call, when aborted beforehand or without time left', async () => {
    expect(await transcribe({}, { signal: AbortSignal.abort() })).toMatchObject(DEFINITE)
    expect(await transcribe({}, { timeoutMs: 0 })).toMatchObject(DEFINITE)
    expect(upstream.calls).toHaveLength(0)
  })
})

describe('ambiguous failures after exactly one call', () => {
  test.each<[FaultRuleInput, string]>([
    [{ fault: 'status', status: 500, body: { detail: 'CANARY' } }, 'HTTP 500'],
    [{ fault: 'status', status: 503, body: {} }, 'HTTP 503'],
    [{ fault: 'status', status: 408, body: {} }, 'HTTP 408'],
    [{ fault: 'status', status: 202, body: { message: 'CANARY' } }, 'HTTP 202'],
    [{ fault: 'hang' }, `no complete response within ${PATIENCE_MS} ms`],
    [{ fault: 'none', delayMs: 10 * PATIENCE_MS }, `no complete response within ${PATIENCE_MS} ms`],
    [{ fault: 'slowBody', everyMs: 100 }, `HTTP 200, no complete response within ${PATIENCE_MS} ms`],
    [{ fault: 'resetBeforeRead' }, 'EPIPE|ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetAfterRead' }, 'ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetMidBody' }, 'HTTP 200, (ECONNRESET|UND_ERR_SOCKET)'],
    [{ fault: 'truncatedJson' }, 'HTTP 200 with a body that is not JSON'],
    [{ fault: 'status', status: 200, body: '[]' }, 'HTTP 200 with a malformed transcript'],
  ])('leaves the outcome unknown after one call: %o', async (rule, reason) => {
    upstream.setFaults([rule])
    const outcome = await transcribe({}, { http: createExpiringHttp(upstream, rule) })
    expect(outcome).toMatchObject(UNKNOWN_OUTCOME)
    expect(outcome.outcome === 'failed' && outcome.reason).toMatch(new RegExp(`^(${reason})$`))
    expect(upstream.calls).toHaveLength(1)
  })

  test('leaves the outcome unknown for an answer above the size limit, reading no more than the limit', async () => {
    upstream.setFaults([{ fault: 'hugeBody', bytes: 200 * 1024 * 1024 }])
    const outcome = await transcribe()
    expect(outcome).toMatchObject({ ...UNKNOWN_OUTCOME, reason: 'HTTP 200, response larger than 33554432 bytes' })
    await expect.poll(() => upstream.calls[0]?.state).toBe('aborted')
  })

  test('does not follow redirects, so that the key stays with its host', async () => {
    const other = await startUpstream()
    try {
      for (const status of [301, 302, 303, 307, 308]) {
        answerWith({}, status, { location: `${other.url}/v1/speech-to-text` })
        expect(await transcribe()).toMatchObject({ ...UNKNOWN_OUTCOME, reason: `HTTP ${status}` })
      }
      expect(other.calls).toHaveLength(0)
    } finally {
      await other.stop()
    }
  })

  test('leaves the outcome unknown when the caller aborts while waiting', async () => {
    upstream.setFaults([{ fault: 'hang' }])
    const caller = new AbortController()
    const outcome = transcribe({}, { signal: caller.signal })
    await until(() => upstream.calls[0]?.state === 'started')
    caller.abort()
    expect(await outcome).toMatchObject({ ...UNKNOWN_OUTCOME, reason: 'aborted by the caller' })
  })

  test.each([
    { code: 'ETIMEDOUT', syscall: 'read' },
    { code: 'EHOSTUNREACH', syscall: 'write' },
    { code: 'EPROTO', syscall: 'write' },
    { code: 'sk_CANARY lower case' },
    {},
  ])('leaves the outcome unknown for an error that does not show when it happened: %o', async (fields) => {
    const outcome = await transcribe({}, { http: failing(fields) })
    expect(outcome).toMatchObject(UNKNOWN_OUTCOME)
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
  })
})

describe('transcripts that are not as documented', () => {
  test.each([
    ['missing', undefined],
    ['empty', []],
    ['null', null],
    ['a text', 'CANARY'],
    ['without any time', [{ text: 'Oh no.', type: 'word', start: null, end: null }]],
  ])('are delivered without words when requested ones are %s, which is noted', async (_name, words) => {
    answerWith({ text: 'Oh no.', words })
    expect(await transcribe({ timestamps: 'word' })).toEqual({
      outcome: 'transcribed',
      transcript: { text: 'Oh no.', words: [] },
      mended: ['words'],
    })
  })

  test.each([
    ['of a new kind', { text: 'Oh', type: 'hologram', start: 0, end: 1 }, ['word', 0, 1], 'words.type'],
    [
      'a sound of a new kind',
      { text: '(bell)', type: 'hologram', start: 0, end: 1 },
      ['audio_event', 0, 1],
      'words.type',
    ],
    ['space of no kind', { text: ' ', start: 0, end: 1 }, ['spacing', 0, 1], undefined],
    ['before the beginning', { text: 'Oh', type: 'word', start: -1, end: 1 }, ['word', 0, 1], 'words.start'],
    ['at a time in text', { text: 'Oh', type: 'word', start: '0.5', end: 1 }, ['word', 0.5, 1], 'words.start'],
    ['at no time', { text: 'Oh', type: 'word', start: 1e300, end: 1 }, ['word', 0, 1], 'words.start'],
  ])('have a word %s as the nearest that can be told', async (_name, word, expected, field) => {
    answerWith({ text: 'Oh no.', words: [word, 7, null, { text: ' no.', type: 'word', start: 1, end: 2 }] })
    const outcome = await transcribe({ timestamps: 'word' })
    if (outcome.outcome !== 'transcribed') throw new Error(outcome.reason)
    const read = outcome.transcript.words?.map(({ type, startSeconds, endSeconds }) => [type, startSeconds, endSeconds])
    expect(read).toEqual([expected, ['word', 1, 2]])
    expect(outcome.mended?.toSorted()).toEqual([...(field === undefined ? [] : [field]), 'words'].toSorted())
  })

  test('have the text of their words when they have none, and a number as text', async () => {
    answerWith({ words: [{ text: 'Oh', start: 0, end: 1 }, { text: ' no.' }] })
    expect((await transcribed()).text).toBe('Oh no.')
    answerWith({ text: 7 })
    expect((await transcribed()).text).toBe('7')
  })

  test('are delivered without characters when requested ones are missing, which is noted', async () => {
    answerWith(fixture('plain'))
    const outcome = await transcribe({ timestamps: 'character' })
    expect(outcome).toMatchObject({ transcript: { text: 'With a soft voice.' }, mended: ['words.characters'] })
    expect(outcome.outcome === 'transcribed' && outcome.transcript.words?.some((word) => 'characters' in word)).toBe(
      false,
    )
  })

  test('have no id that could be text of the recording', async () => {
    answerWith({ text: 'Oh no.', transcription_id: 'CANARY and more' })
    expect(await transcribe()).toEqual({ outcome: 'transcribed', transcript: { text: 'Oh no.' } })
  })
})

test('no failure reveals the key, the transcript or the vendor’s message', async () => {
  const rules: FaultRuleInput[] = [
    { fault: 'status', status: 400, body: fixture('error-invalid-parameters') },
    { fault: 'status', status: 401, body: { detail: { message: API_KEY, code: `bad key ${API_KEY}` } } },
    { fault: 'status', status: 422, body: fixture('error-invalid-field') },
    { fault: 'status', status: 500, body: `CANARY ${API_KEY}` },
    { fault: 'truncatedJson' },
    { fault: 'resetMidBody' },
  ]
  for (const rule of rules) {
    upstream.setFaults([rule])
    const outcome = await transcribe({ diarize: true })
    expect(outcome.outcome).toBe('failed')
    expect(JSON.stringify(outcome)).not.toMatch(/CANARY|sk_|tram|wallet/)
  }
})

/** Returns an HTTP sender whose fetch fails as Node's does: with a TypeError around the system's error. */
function failing(fields: { code?: string; syscall?: string }): SendHttp {
  const cause = Object.assign(new Error('CANARY'), fields)
  return createHttp({ fetch: () => Promise.reject(new TypeError('fetch failed', { cause })) })
}

/** Returns a port on which nothing listens. */
async function closedPort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const address = server.address()
  await new Promise((resolve) => {
    server.close(resolve)
  })
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}
