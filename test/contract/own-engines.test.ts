import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parseDeployments } from '#shared/catalog/deployments-file.ts'
import { providerKeysOf } from '#shared/catalog/provider-keys.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { createDeployments } from '../../workers/providers/create-deployments.ts'
import type { HttpRequest } from '../../workers/providers/http.ts'
import type { TranscriptionInput } from '../../workers/providers/provider.ts'
import { readBody } from '../support/vendors/request-bodies.ts'

/*
 * What the servers answer that people run themselves: each fixture says from which server, version and source it was written.
 */

interface Fixture {
  readonly server: string
  readonly version: string
  readonly source: string
  readonly read: string
  readonly answer: JsonValue
}

const fixture = (name: string): Fixture =>
  JSON.parse(readFileSync(new URL(`./fixtures/engines/${name}.json`, import.meta.url), 'utf8')) as Fixture

/** Calls a deployment with these options, whose server answers with the fixture. */
async function ask(answer: unknown, options: Record<string, JsonValue>, wanted: Partial<TranscriptionInput> = {}) {
  const sent: HttpRequest[] = []
  const file = parseDeployments({
    deployments: [
      {
        name: 'engine',
        adapter: 'openai-compatible',
        base_url: 'http://127.0.0.1:8080/v1',
        upstream_model: 'model',
        serves: ['speechvendor/scribe-v2'],
        options,
      },
    ],
  })
  const [deployment] = createDeployments(file, {
    environment: {},
    providerKeys: providerKeysOf(file),
    http: async (request) => {
      sent.push(request)
      const bytes = Buffer.from(JSON.stringify(answer))
      return { outcome: 'response', status: 200, headers: new Headers(), bytes }
    },
  })
  const input = { audio: new Uint8Array(9), diarize: false, tagAudioEvents: false, needsWords: false } as const
  const outcome = await deployment?.transcription?.transcribe(
    { ...input, timestamps: 'none', ...wanted },
    { timeoutMs: 60_000 },
  )
  const [request] = sent
  return { outcome, url: request?.url, fields: request && (await readBody(request)) }
}

const word = (text: string, startSeconds: number, endSeconds: number) => ({
  text,
  type: 'word',
  startSeconds,
  endSeconds,
})
const STEP = [word('Mind', 0, 0.4), word('the', 0.4, 0.6), word('step.', 0.6, 1)]
const WORDS = { timestamps: 'word' } as const
const tokens = (...texts: string[]) => texts.map((each, index) => ({ word: each, start: index, end: index + 1 }))
const asked = async (detail: string, wanted: Partial<TranscriptionInput> = {}) =>
  (await ask({ text: 'Hello' }, { transcript_detail: detail }, wanted)).fields

/** Returns the words that are read of these tokens of one segment. */
const heard = async (...texts: string[]) => {
  const { outcome } = await ask({ text: texts.join(''), segments: [{ text: '', words: tokens(...texts) }] }, {}, WORDS)
  return outcome?.outcome === 'transcribed' ? outcome.transcript.words?.map(({ text }) => text) : outcome
}

describe('the words of servers that tell their times', () => {
  it.each([
    ['speaches', STEP],
    ['localai', STEP],
    [
      'whisper.cpp',
      [
        word('The', 0.02, 0.2),
        word('last', 0.2, 0.5),
        word('tram', 0.5, 0.8),
        word('leaves', 0.8, 1.2),
        word('from', 1.2, 1.4),
        word('Bahnhofstraße.', 1.4, 2.9),
        word("Don't", 2.9, 3.2),
        word('miss', 3.2, 3.6),
        word('it!', 3.6, 4.2),
      ],
    ],
  ])('are delivered: %s', async (name, words) => {
    const { outcome } = await ask(fixture(name).answer, {}, WORDS)
    expect(outcome).toMatchObject({ outcome: 'transcribed', transcript: { language: 'eng', words } })
    expect(outcome).not.toHaveProperty('mended')
  })

  it('are found inside segments, too, where a server lists none at the top', async () => {
    const { words: _, ...answer } = fixture('localai').answer as Record<string, JsonValue>
    expect((await ask(answer, {}, WORDS)).outcome).toMatchObject({ transcript: { words: STEP } })
    expect((await ask({ ...answer, words: [] }, {}, WORDS)).outcome).toMatchObject({ transcript: { words: STEP } })
  })

  it('stay apart in scripts without spaces, and where no token begins with a space', async () => {
    expect(await heard('最終', '電車', 'です')).toEqual(['最終', '電車', 'です'])
    expect(await heard('最終', ' i', 'Phone', '電車')).toEqual(['最終', 'iPhone', '電車'])
    expect(await heard('The', 'last', 'tram')).toEqual(['The', 'last', 'tram'])
    expect(await heard('Da', 'heim', ' ist', ' es')).toEqual(['Daheim', 'ist', 'es'])
  })

  it('are none, and noted, when whisper.cpp runs with --no-timestamps', async () => {
    const answer = { text: ' Hello', segments: [{ text: ' Hello', words: [{ word: ' Hello', probability: 0.9 }] }] }
    expect((await ask(answer, {}, WORDS)).outcome).toEqual({
      outcome: 'transcribed',
      transcript: { text: 'Hello', words: [] },
      mended: ['words'],
    })
  })
})

describe('the text of every server', () => {
  it.each([
    ['whisper.cpp', "The last tram leaves from Bahnhofstraße.\n Don't miss it!", 'eng'],
    ['speaches', 'Mind the step.', 'eng'],
    ['vllm', 'Mind the step. Doors close.', 'eng'],
    ['vllm-json', 'Mind the step.', undefined],
    ['llama.cpp', 'Mind the step.', undefined],
    ['ollama', 'Mind the step.', undefined],
    ['localai', 'Mind the step.', 'eng'],
    [
      'localai-documented',
      'My fellow Americans, this day has brought terrible news and great sadness to our country. Columbia.',
      undefined,
    ],
  ])('is delivered: %s', async (name, text, language) => {
    const { outcome } = await ask(fixture(name).answer, {})
    expect(outcome).toEqual({ outcome: 'transcribed', transcript: { text, ...(language && { language }) } })
  })

  it('is that of the segments where there is no other', async () => {
    const { text: _, ...answer } = fixture('vllm').answer as Record<string, JsonValue>
    expect((await ask(answer, {})).outcome).toMatchObject({ transcript: { text: 'Mind the step. Doors close.' } })
    const segments = [{ text: 'Mind the step.' }, { text: 'Doors close.' }]
    expect((await ask({ segments }, {})).outcome).toMatchObject({ transcript: { text: 'Mind the step. Doors close.' } })
  })

  it.each(['whisper.cpp', 'speaches', 'vllm', 'vllm-json', 'llama.cpp', 'ollama', 'localai', 'localai-documented'])(
    'comes from a named source: %s',
    (name) => {
      const { server, version, source, read } = fixture(name)
      expect(`${server} ${version}`).toMatch(/\w \S/)
      expect(source).toMatch(/^github\.com\/[\w.-]+\/[\w.-]+, /)
      expect(read).toBe('2026-11-28')
    },
  )
})

describe('what a server is asked', () => {
  it('is what it takes: verbose_json with words, with segments, or json alone', async () => {
    expect(await asked('words', WORDS)).toEqual({
      model: 'model',
      response_format: 'verbose_json',
      timestamp_granularities: ['word'],
    })
    expect(await asked('segments')).toEqual({ model: 'model', response_format: 'verbose_json' })
    expect(await asked('text', { language: 'deu' })).toEqual({
      model: 'model',
      response_format: 'json',
      language: 'de',
    })
  })

  it.each(['segments', 'text'])('is never the times of words where it lists %s alone', async (detail) => {
    for (const wanted of [WORDS, { needsWords: true }]) {
      const { outcome, url } = await ask({ text: 'Hello' }, { transcript_detail: detail }, wanted)
      expect(outcome).toMatchObject({ code: 'provider_unavailable', concerns: 'request' })
      expect(url).toBeUndefined()
    }
  })

  it('goes to the path of whisper.cpp, which is told to find the language itself', async () => {
    const options = { transcription_path: '/inference', automatic_language: 'auto' }
    const found = await ask({ text: 'Hallo' }, options)
    expect(found).toMatchObject({ url: 'http://127.0.0.1:8080/v1/inference', fields: { language: 'auto' } })
    expect((await ask({ text: 'Hallo' }, options, { language: 'de' })).fields).toMatchObject({ language: 'de' })
  })

  it.each([
    { transcription_path: 'inference' },
    { transcription_path: '//evil.example/x' },
    { transcription_path: '/inference?key=1' },
    { transcript_detail: 'speakers' },
    { automatic_language: '' },
    { speech_format: 'pcm' },
  ])('is refused at the start of a worker when it cannot be right: %o', async (options) => {
    await expect(ask({ text: 'Hello' }, options as Record<string, string>)).rejects.toThrow(/options/)
  })
})
