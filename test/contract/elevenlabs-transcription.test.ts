import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'
import { createElevenLabsTranscription } from '../../workers/providers/elevenlabs/transcription.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import type { TranscriptionInput } from '../../workers/providers/provider.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { until } from '../support/until.ts'
import { createExpiringHttp } from './expiring-http.ts'

const apiKey = 'sk_CANARY_key_0f2c'
const sample = (name: string) => readFileSync(new URL(`../../infra/sandbox/samples/${name}`, import.meta.url))
const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`./fixtures/elevenlabs/${name}.json`, import.meta.url), 'utf8'))

const dialogue = sample('two-at-the-stop.mp3')
const input: TranscriptionInput = {
  audio: dialogue,
  diarize: false,
  timestamps: 'none',
  tagAudioEvents: false,
  needsWords: false,
}

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream({ apiKey })
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
    apiKey: setting.key ?? apiKey,
    upstreamModel: 'scribe_v2',
    http: setting.http ?? createHttp({ fetch }),
  })
  const { timeoutMs = PATIENCE_MS, signal } = setting
  return provider.transcribe({ ...input, ...changes }, { timeoutMs, ...(signal === undefined ? {} : { signal }) })
}

async function transcribed(changes: Partial<TranscriptionInput> = {}) {
  const outcome = await transcribe(changes)
  if (outcome.outcome !== 'transcribed') throw new Error(outcome.reason)
  return outcome.transcript
}

function answerWith(body: unknown, status = 200, headers: Record<string, string> = {}) {
  upstream.setFaults([{ fault: 'status', status, body, headers }])
}

const definite = { outcome: 'failed', certainty: 'definite' } as const
const unknownOutcome = { outcome: 'failed', certainty: 'ambiguous', code: 'provider_outcome_unknown' } as const

describe('request', () => {
  test('the audio arrives unchanged and every option with an upstream default is sent', async () => {
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

  test('language and number of speakers are passed on, the latter even without diarization', async () => {
    await transcribed({ language: 'en', numSpeakers: 2 })
    expect(upstream.calls[0]?.fields).toMatchObject({ language_code: 'en', num_speakers: '2', diarize: 'false' })
  })

  test.each([
    [{ needsWords: true }, 'word'],
    [{ diarize: true }, 'word'],
    [{ timestamps: 'word' as const }, 'word'],
    [{ timestamps: 'character' as const }, 'character'],
    [{ tagAudioEvents: true }, 'none'],
  ])('options %o ask for granularity %s', async (changes, granularity) => {
    await transcribed(changes)
    expect(upstream.calls[0]?.fields['timestamps_granularity']).toBe(granularity)
  })

  test('a base URL may end in a slash', async () => {
    const outcome = await transcribe({}, { baseUrl: `${upstream.url}/` })
    expect(outcome.outcome).toBe('transcribed')
  })

  test.each([
    ['a base URL that is none', { baseUrl: 'upstream' }],
    ['a key that cannot be a header', { key: 'sk_CANARY\nkey' }],
  ])('%s is refused at creation, without quoting it', (_name, setting) => {
    expect(() => transcribe({}, setting)).toThrow(/^(?!.*CANARY)The ElevenLabs /)
  })
})

describe('transcript over the simulated upstream', () => {
  test('a plain transcript has text, language and probability, and no words', async () => {
    const transcript = await transcribed({ audio: sample('biglietteria-cortese.mp3') })
    expect(transcript.text).toMatch(/^Buongiorno! Sono la biglietteria più cortese della città\./)
    expect(transcript).toMatchObject({ language: 'ita', languageProbabilityMillionths: 987_654 })
    expect(transcript).not.toHaveProperty('words')
  })

  test('diarized words carry speakers, and joined they are the text', async () => {
    const { words = [], text } = await transcribed({ diarize: true })
    expect(words.map((word) => word.text).join('')).toBe(text)
    expect(new Set(words.map(({ speaker }) => speaker))).toEqual(new Set(['speaker_0', 'speaker_1']))
    expect(words.every(({ startSeconds, endSeconds }) => startSeconds <= endSeconds && endSeconds <= 22.3)).toBe(true)
    expect(words[0]).not.toHaveProperty('characters')
  })

  test('audio events are tagged only when asked for', async () => {
    const withEvents = await transcribed({ timestamps: 'word', tagAudioEvents: true })
    const without = await transcribed({ timestamps: 'word' })
    const events = withEvents.words?.filter(({ type }) => type === 'audio_event').map(({ text }) => text)
    expect(events).toEqual(['(bell)'])
    expect(without.text).not.toContain('(bell)')
  })

  test('character times cover their word', async () => {
    const { words = [] } = await transcribed({ timestamps: 'character' })
    const [first] = words
    expect(first?.characters?.map(({ text }) => text)).toEqual(['I', 's'])
    expect(first?.characters?.at(-1)?.endSeconds).toBe(first?.endSeconds)
  })
})

describe('transcript from the documented answers', () => {
  test('plain', async () => {
    answerWith(fixture('plain'))
    expect(await transcribe()).toEqual({
      outcome: 'transcribed',
      vendorRequestId: 'tr_plain',
      transcript: { text: 'With a soft voice.', language: 'en', languageProbabilityMillionths: 982_130 },
    })
  })

  test('diarized with an event; a spacing may have no speaker and a probability above 1 is 1', async () => {
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

  test('without diarization no speaker is told, although the vendor names one', async () => {
    answerWith(fixture('plain'))
    const { words = [] } = await transcribed({ timestamps: 'word' })
    expect(words).toHaveLength(7)
    expect(words[0]).toEqual({ text: 'With', type: 'word', startSeconds: 0.119, endSeconds: 0.259 })
  })

  test('characters', async () => {
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

  test('a missing time becomes its neighbour’s', async () => {
    answerWith(fixture('null-times'))
    const { words = [] } = await transcribed({ timestamps: 'word' })
    expect(words.map(({ startSeconds, endSeconds }) => [startSeconds, endSeconds])).toEqual([
      [0, 0.4],
      [0.4, 0.5],
      [0.5, 0.5],
    ])
  })

  test('text that PostgreSQL cannot store is made storable', async () => {
    answerWith('{"text":"a\\u0000b\\ud800c"}')
    expect((await transcribed()).text).toBe('ab\ufffdc')
  })

  test('a new kind of word does not spoil a transcript without words', async () => {
    answerWith({ text: 'CANARY', words: [{ text: 'CANARY', type: 'hologram' }] })
    expect((await transcribed()).text).toBe('CANARY')
  })
})

describe('refusals before any work are definite', () => {
  test.each([
    [400, 'provider_rejected'],
    [413, 'provider_rejected'],
    [422, 'provider_rejected'],
    [401, 'provider_unavailable'],
    [402, 'provider_unavailable'],
    [403, 'provider_unavailable'],
    [404, 'provider_unavailable'],
    [429, 'provider_unavailable'],
  ])('%i is %s', async (status, code) => {
    answerWith({ detail: { status: 'some_code', message: 'CANARY' } }, status)
    expect(await transcribe()).toEqual({ ...definite, code, reason: `HTTP ${status} some_code` })
  })

  test('the vendor’s code and request id are kept, its message is not', async () => {
    answerWith(fixture('error-invalid-parameters'), 400)
    expect(await transcribe()).toEqual({
      ...definite,
      code: 'provider_rejected',
      reason: 'HTTP 400 invalid_parameters',
      vendorRequestId: '3c807fc4c3a1705f9638ecc764a91c01',
    })
  })

  test('of a refused field its name is kept, its value is not', async () => {
    answerWith(fixture('error-invalid-field'), 422)
    expect(await transcribe()).toMatchObject({ code: 'provider_rejected', reason: 'HTTP 422 int_parsing num_speakers' })
  })

  test('account trouble under status 400 is not the input’s fault', async () => {
    answerWith(fixture('error-invalid-key'), 400)
    expect(await transcribe()).toMatchObject({ ...definite, code: 'provider_unavailable' })
  })

  test('a 429 hands on how long to wait', async () => {
    answerWith({ detail: { code: 'rate_limit_exceeded' } }, 429, { 'retry-after': '7' })
    expect(await transcribe()).toMatchObject({ code: 'provider_unavailable', retryAfterSeconds: 7 })
  })

  test('a refusal without a readable body is still a refusal', async () => {
    answerWith('<html>CANARY</html>', 403)
    expect(await transcribe()).toEqual({ ...definite, code: 'provider_unavailable', reason: 'HTTP 403' })
  })

  test('the simulated vendor refuses a wrong key', async () => {
    const outcome = await transcribe({}, { key: 'sk_CANARY_wrong' })
    expect(outcome).toMatchObject({ ...definite, code: 'provider_unavailable', reason: 'HTTP 401 invalid_api_key' })
    expect(upstream.calls[0]).toMatchObject({ started: false, status: 401 })
  })

  test('the simulated vendor refuses bytes that are no audio', async () => {
    const outcome = await transcribe({ audio: Buffer.from('CANARY, not audio') })
    expect(outcome).toMatchObject({ ...definite, code: 'provider_rejected', reason: 'HTTP 400 invalid_content' })
  })

  test('a blank transcript is never a result', async () => {
    upstream.setFaults([{ fault: 'emptyText' }])
    expect(await transcribe()).toMatchObject({ ...definite, code: 'provider_empty_output' })
    answerWith({ text: ' \n' })
    expect(await transcribe()).toMatchObject({ ...definite, code: 'provider_empty_output' })
    answerWith({ language_code: 'en' })
    expect(await transcribe()).toMatchObject({ ...definite, code: 'provider_empty_output' })
  })
})

describe('what was certainly not sent is definite', () => {
  test('a refused connection', async () => {
    const port = await closedPort()
    const outcome = await transcribe({}, { baseUrl: `http://127.0.0.1:${port}` })
    expect(outcome).toEqual({ ...definite, code: 'provider_unavailable', reason: 'not sent: ECONNREFUSED' })
  })

  test.each([
    { code: 'ENOTFOUND', syscall: 'getaddrinfo' },
    { code: 'EAI_AGAIN', syscall: 'getaddrinfo' },
    { code: 'ETIMEDOUT', syscall: 'connect' },
    { code: 'EHOSTUNREACH', syscall: 'connect' },
    { code: 'UND_ERR_CONNECT_TIMEOUT' },
    { code: 'ERR_TLS_CERT_ALTNAME_INVALID' },
    { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' },
  ])('%o', async (fields) => {
    const outcome = await transcribe({}, { http: failing(fields) })
    expect(outcome).toEqual({ ...definite, code: 'provider_unavailable', reason: `not sent: ${fields.code}` })
  })

  test('every address of a host refused', async () => {
    const refused = Object.assign(new Error('CANARY'), { code: 'ECONNREFUSED', syscall: 'connect' })
    const cause = Object.assign(new AggregateError([refused, refused]), { code: 'ECONNREFUSED' })
    const http = createHttp({ fetch: () => Promise.reject(new TypeError('fetch failed', { cause })) })
    expect(await transcribe({}, { http })).toMatchObject({ ...definite, reason: 'not sent: ECONNREFUSED' })
  })

  test('a call aborted beforehand, or without time left', async () => {
    expect(await transcribe({}, { signal: AbortSignal.abort() })).toMatchObject(definite)
    expect(await transcribe({}, { timeoutMs: 0 })).toMatchObject(definite)
    expect(upstream.calls).toHaveLength(0)
  })
})

describe('what may have been worked on is ambiguous, after exactly one call', () => {
  test.each<[FaultRuleInput, string]>([
    [{ fault: 'status', status: 500, body: { detail: 'CANARY' } }, 'HTTP 500'],
    [{ fault: 'status', status: 503, body: {} }, 'HTTP 503'],
    [{ fault: 'status', status: 408, body: {} }, 'HTTP 408'],
    [{ fault: 'status', status: 202, body: { message: 'CANARY' } }, 'HTTP 202'],
    [{ fault: 'hang' }, `no complete answer within ${PATIENCE_MS} ms`],
    [{ fault: 'none', delayMs: 10 * PATIENCE_MS }, `no complete answer within ${PATIENCE_MS} ms`],
    [{ fault: 'slowBody', everyMs: 100 }, `HTTP 200, no complete answer within ${PATIENCE_MS} ms`],
    [{ fault: 'resetBeforeRead' }, 'EPIPE|ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetAfterRead' }, 'ECONNRESET|UND_ERR_SOCKET'],
    [{ fault: 'resetMidBody' }, 'HTTP 200, (ECONNRESET|UND_ERR_SOCKET)'],
    [{ fault: 'truncatedJson' }, 'HTTP 200 with a body that is not JSON'],
    [{ fault: 'status', status: 200, body: '[]' }, 'HTTP 200 with an ill-shaped transcript'],
    [{ fault: 'status', status: 200, body: { text: 7 } }, 'HTTP 200 with an ill-shaped transcript'],
  ])('%o', async (rule, reason) => {
    upstream.setFaults([rule])
    const outcome = await transcribe({}, { http: createExpiringHttp(upstream, rule) })
    expect(outcome).toMatchObject(unknownOutcome)
    expect(outcome.outcome === 'failed' && outcome.reason).toMatch(new RegExp(`^(${reason})$`))
    expect(upstream.calls).toHaveLength(1)
  })

  test('an answer longer than the cap, after reading no more than the cap', async () => {
    upstream.setFaults([{ fault: 'hugeBody', bytes: 200 * 1024 * 1024 }])
    const outcome = await transcribe()
    expect(outcome).toMatchObject({ ...unknownOutcome, reason: 'HTTP 200, answer longer than 33554432 bytes' })
    await expect.poll(() => upstream.calls[0]?.state).toBe('aborted')
  })

  test('a redirect, which is not followed: the key stays with its host', async () => {
    const other = await startUpstream()
    try {
      for (const status of [301, 302, 303, 307, 308]) {
        answerWith({}, status, { location: `${other.url}/v1/speech-to-text` })
        expect(await transcribe()).toMatchObject({ ...unknownOutcome, reason: `HTTP ${status}` })
      }
      expect(other.calls).toHaveLength(0)
    } finally {
      await other.stop()
    }
  })

  test('an abort by the caller while waiting', async () => {
    upstream.setFaults([{ fault: 'hang' }])
    const caller = new AbortController()
    const outcome = transcribe({}, { signal: caller.signal })
    await until(() => upstream.calls[0]?.state === 'started')
    caller.abort()
    expect(await outcome).toMatchObject({ ...unknownOutcome, reason: 'aborted by the caller' })
  })

  test.each([
    { code: 'ETIMEDOUT', syscall: 'read' },
    { code: 'EHOSTUNREACH', syscall: 'write' },
    { code: 'EPROTO', syscall: 'write' },
    { code: 'sk_CANARY lower case' },
    {},
  ])('an error that does not say when it happened: %o', async (fields) => {
    const outcome = await transcribe({}, { http: failing(fields) })
    expect(outcome).toMatchObject(unknownOutcome)
    expect(JSON.stringify(outcome)).not.toContain('CANARY')
  })

  test.each([
    ['missing', undefined],
    ['empty', []],
    ['of a new kind', [{ text: 'CANARY', type: 'hologram', start: 0, end: 1 }]],
    ['without any time', [{ text: 'CANARY', type: 'word', start: null, end: null }]],
    ['before the beginning', [{ text: 'CANARY', type: 'word', start: -1, end: 1 }]],
  ])('words that were asked for are %s', async (_name, words) => {
    answerWith({ text: 'CANARY', words })
    const outcome = await transcribe({ timestamps: 'word' })
    expect(outcome).toEqual({ ...unknownOutcome, reason: 'HTTP 200 without usable words' })
  })

  test('characters that were asked for are missing', async () => {
    answerWith(fixture('plain'))
    expect(await transcribe({ timestamps: 'character' })).toMatchObject(unknownOutcome)
  })
})

test('no failure tells the key, the transcript or the vendor’s words', async () => {
  const rules: FaultRuleInput[] = [
    { fault: 'status', status: 400, body: fixture('error-invalid-parameters') },
    { fault: 'status', status: 401, body: { detail: { message: apiKey, code: `bad key ${apiKey}` } } },
    { fault: 'status', status: 422, body: fixture('error-invalid-field') },
    { fault: 'status', status: 500, body: `CANARY ${apiKey}` },
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

/** An HTTP sender whose fetch fails as Node's does: a bare TypeError around the system's error. */
function failing(fields: { code?: string; syscall?: string }): SendHttp {
  const cause = Object.assign(new Error('CANARY'), fields)
  return createHttp({ fetch: () => Promise.reject(new TypeError('fetch failed', { cause })) })
}

/** A port that was free a moment ago. */
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
