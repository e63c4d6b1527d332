import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { id3Tag } from '../../infra/sandbox/samples/id3-tag.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'

const sample = (name: string) => readFileSync(new URL(`../../infra/sandbox/samples/${name}`, import.meta.url))

/** One second of empty MPEG-2 Layer III frames: 22.05 kHz, 32 kbit/s, 576 samples in 104 bytes. */
const UNTAGGED = Buffer.concat(
  Array.from({ length: 38 }, () => Buffer.concat([Buffer.from([0xff, 0xf3, 0x40, 0xc0]), Buffer.alloc(100)])),
)
const withScript = (lyrics: string) =>
  Buffer.concat([id3Tag({ title: 'Prüfung', artist: 'test', language: 'deu', lyrics }), UNTAGGED])

const folder = mkdtempSync(join(tmpdir(), 'farebox-upstream-'))
const callLogPath = join(folder, 'calls.jsonl')

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream({ apiKey: 'sandbox-key', callLogPath })
})
afterEach(() => {
  upstream.setFaults([])
  upstream.clearCalls()
})
afterAll(async () => {
  await upstream.stop()
  rmSync(folder, { recursive: true })
})

interface Word {
  text: string
  type: string
  start: number | null
  end: number | null
  speaker_id: string | null
  characters: { text: string }[] | null
}

interface Answer {
  status: number
  body: { text: string; language_code: string; language_probability: number; words: Word[]; detail: unknown }
}

async function post(fields: Record<string, string>, audio?: Buffer<ArrayBuffer>, key = 'sandbox-key'): Promise<Answer> {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.set(name, value)
  if (audio !== undefined) form.set('file', new Blob([audio]), 'audio.mp3')
  const response = await fetch(`${upstream.url}/v1/speech-to-text`, {
    method: 'POST',
    headers: key === '' ? {} : { 'xi-api-key': key },
    body: form,
  })
  return { status: response.status, body: (await response.json()) as Answer['body'] }
}

async function askWhisper(audio: Buffer<ArrayBuffer>): Promise<Response> {
  const form = new FormData()
  form.set('model', 'whisper-1')
  form.set('file', new Blob([audio]), 'audio.mp3')
  const headers = { authorization: 'Bearer sandbox-key' }
  return await fetch(`${upstream.url}/v1/audio/transcriptions`, { method: 'POST', headers, body: form })
}

/** Returns this many frames, of 26 ms each. */
const untagged = (frames: number) => UNTAGGED.subarray(0, frames * 104)

const hear = async (script: string, fields: Record<string, string> = {}) =>
  (await post({ model_id: 'scribe_v2', ...fields }, withScript(script))).body

const put = (rules: unknown) =>
  fetch(`${upstream.url}/_simulator/faults`, { method: 'PUT', body: JSON.stringify(rules) })

describe('transcription', () => {
  test('transcribes the script of the lyrics tag in its language, over the duration of the frames', async () => {
    const body = await hear('Grüße, Fahrgast!')
    expect(body).toMatchObject({ text: 'Grüße, Fahrgast!', language_code: 'deu' })
    expect(body.words.map(({ type }) => type)).toEqual(['word', 'spacing', 'word'])
    expect(body.words.at(0)?.start).toBe(0)
    expect(body.words.at(-1)?.end).toBeCloseTo((38 * 576) / 22_050, 2)
  })

  test('reports a requested language with probability 1', async () => {
    expect(await hear('eins', { language_code: 'de' })).toMatchObject({ language_code: 'de', language_probability: 1 })
  })

  test('transcribes audio without a script as a sentence with its length', async () => {
    const { body } = await post({ model_id: 'scribe_v2' }, UNTAGGED)
    expect(body.text).toBe('This is a simulated transcription of 1.0 seconds of audio.')
  })

  test('tags audio events by default, like the vendor', async () => {
    const script = 'Willkommen (warmer Applaus) an Bord'
    expect((await hear(script)).words.find(({ type }) => type === 'audio_event')?.text).toBe('(warmer Applaus)')
    expect((await hear(script, { tag_audio_events: 'false' })).text).toBe('Willkommen an Bord')
  })

  test.each([
    ['named lines keep their speaker', 'Ann: eins\nBen: zwei\nAnn: drei', {}, ['speaker_0', 'speaker_1', 'speaker_0']],
    ['unnamed lines alternate', 'eins\nzwei\n(Glocke)\ndrei', {}, ['speaker_0', 'speaker_1', 'speaker_0']],
    [
      'speakers stay within num_speakers',
      'Ann: eins\nBen: zwei\nCid: drei',
      { num_speakers: '2' },
      ['speaker_0', 'speaker_1', 'speaker_1'],
    ],
  ])('diarizes a script: %s', async (_name, script, fields, speakers) => {
    const { words, text } = await hear(script, { diarize: 'true', tag_audio_events: 'false', ...fields })
    expect(words.filter(({ type }) => type === 'word').map(({ speaker_id }) => speaker_id)).toEqual(speakers)
    expect(text).toBe('eins zwei drei')
  })

  test('returns no times for granularity none, and characters for granularity character', async () => {
    const none = await hear('eins', { timestamps_granularity: 'none' })
    const character = await hear('eins', { timestamps_granularity: 'character' })
    expect(none.words[0]).toMatchObject({ start: null, end: null, characters: null })
    expect(character.words[0]?.characters?.map(({ text }) => text)).toEqual(['e', 'i', 'n', 's'])
  })
})

describe('refusals', () => {
  test.each([
    ['no key', {}, '', 401, { detail: { code: 'needs_authorization' } }],
    ['a wrong key', {}, 'wrong', 401, { detail: { code: 'invalid_api_key', status: 'invalid_api_key' } }],
    ['an unknown model', { model_id: 'scribe_v9' }, undefined, 400, { detail: { code: 'invalid_parameters' } }],
    [
      'a bad granularity',
      { timestamps_granularity: 'segment' },
      undefined,
      422,
      { detail: [{ loc: ['body', 'timestamps_granularity'] }] },
    ],
    ['a bad boolean', { diarize: 'maybe' }, undefined, 422, { detail: [{ loc: ['body', 'diarize'] }] }],
    ['too many speakers', { num_speakers: '33' }, undefined, 422, { detail: [{ loc: ['body', 'num_speakers'] }] }],
    [
      'an unknown language',
      { language_code: 'klingon!' },
      undefined,
      400,
      { detail: { code: 'unsupported_language' } },
    ],
  ])('rejects %s', async (_name, fields, key, status, body) => {
    const answer = await post({ model_id: 'scribe_v2', ...fields }, withScript('eins'), key)
    expect(answer).toMatchObject({ status, body })
    expect(upstream.calls[0]).toMatchObject({ started: false, status, state: 'answered' })
  })

  test('rejects less than 100 ms, as the vendor documents', async () => {
    expect(await post({ model_id: 'scribe_v2' }, untagged(3))).toMatchObject({
      status: 400,
      body: { detail: { type: 'validation_error' } },
    })
    expect(upstream.calls[0]).toMatchObject({ started: false })
    expect(await post({ model_id: 'scribe_v2' }, untagged(4))).toMatchObject({ status: 200 })
  })

  test('rejects less than 0.1 seconds as OpenAI does', async () => {
    const short = await askWhisper(untagged(3))
    expect(short.status).toBe(400)
    expect(await short.json()).toEqual({
      error: {
        message: 'Audio file is too short. Minimum audio length is 0.1 seconds.',
        type: 'invalid_request_error',
        param: 'file',
        code: 'audio_too_short',
      },
    })
    expect((await askWhisper(untagged(4))).status).toBe(200)
  })

  test('rejects a missing model, file or form', async () => {
    expect(await post({}, UNTAGGED)).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'model_id'] }] } })
    expect(await post({ model_id: 'scribe_v2' })).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['body', 'file'] }] },
    })
    const response = await fetch(`${upstream.url}/v1/speech-to-text`, {
      method: 'POST',
      headers: { 'xi-api-key': 'sandbox-key', 'content-type': 'multipart/form-data; boundary=x' },
      body: 'broken',
    })
    expect(response.status).toBe(400)
  })

  test('answers 404 to an unknown route without logging a call', async () => {
    expect((await fetch(`${upstream.url}/v1/user`)).status).toBe(404)
    expect(upstream.calls).toHaveLength(0)
  })
})

/** Sends JSON to a text vendor's route, with the vendor's header for the key. */
async function ask(path: string, headers: Record<string, string>, body: object): Promise<Response> {
  return await fetch(upstream.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
}

const gemini = (model: string, body: object) =>
  ask(
    `/v1beta/models/${model}:generateContent`,
    { 'x-goog-api-key': 'sandbox-key' },
    { contents: [{ role: 'user', parts: [{ text: 'hi' }] }], ...body },
  )
const claude = (model: string, body: object, headers: Record<string, string> = { 'x-api-key': 'sandbox-key' }) =>
  ask(
    '/v1/messages',
    { 'anthropic-version': '2023-06-01', ...headers },
    { model, max_tokens: 2000, messages: [{ role: 'user', content: 'hi' }], ...body },
  )
const openai = (model: string, body: object) =>
  ask(
    '/v1/chat/completions',
    { authorization: 'Bearer sandbox-key' },
    { model, messages: [{ role: 'user', content: 'hi' }], ...body },
  )

const modelTurn = {
  contents: [
    { role: 'user', parts: [{ text: 'hi' }] },
    { role: 'model', parts: [{ text: 'Hello' }] },
  ],
}
const assistantTurn = {
  messages: [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: 'Hello' },
  ],
}
const forcedCall = {
  tools: [{ name: 'clock', input_schema: { type: 'object' } }],
  tool_choice: { type: 'tool', name: 'clock' },
}
const withTool = {
  tools: [{ functionDeclarations: [{ name: 'f' }] }],
  generationConfig: { responseMimeType: 'application/json' },
}
const functionTool = { tools: [{ type: 'function', function: { name: 'f' } }] }

describe('text vendors', () => {
  test.each<[string, object, RegExp]>([
    ['gemini-2.5-flash', { generationConfig: { presencePenalty: 0.1 } }, /^Penalty is not enabled/],
    ['gemini-3.6-flash', { generationConfig: { frequencyPenalty: -1 } }, /^Penalty is not enabled/],
    ['gemini-2.5-flash', withTool, /^Function calling with a response mime type/],
    ['gemini-3.6-flash', modelTurn, /^Requests ending with a model turn/],
    ['gemini-3.5-flash-lite', modelTurn, /^Requests ending with a model turn/],
    ['gemini-2.5-flash', { generationConfig: { maxOutputTokens: 65_537 } }, /supported range/],
    ['gemini-3.6-flash', { generationConfig: { thinkingConfig: { thinkingLevel: 'minimal' } } }, /MINIMAL is not supp/],
    ['gemini-2.5-flash', { generationConfig: { thinkingConfig: { thinkingLevel: 'low' } } }, /is not supported/],
    ['gemini-2.5-pro', { generationConfig: { thinkingConfig: { thinkingBudget: 0 } } }, /^Budget 0 is invalid/],
    ['gemini-2.5-flash-lite', { generationConfig: { thinkingConfig: { thinkingBudget: 128 } } }, /128 is invalid/],
    ['gemini-2.0-flash', { generationConfig: { thinkingConfig: { thinkingBudget: 128 } } }, /not supported/],
  ])('%s refuses %j as Google does', async (model, body, message) => {
    const answer = await gemini(model, body)
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({
      error: { code: 400, status: 'INVALID_ARGUMENT', message: expect.stringMatching(message) },
    })
    expect(upstream.calls[0]).toMatchObject({ started: false })
  })

  test.each<[string, object]>([
    ['gemini-3.6-flash', withTool],
    ['gemini-3.5-flash', modelTurn],
    ['gemini-2.5-flash', { generationConfig: { presencePenalty: 0 } }],
    ['gemini-3.6-flash', { generationConfig: { thinkingConfig: { thinkingLevel: 'LOW', includeThoughts: true } } }],
    ['gemini-3.1-flash-lite', { generationConfig: { thinkingConfig: { thinkingLevel: 'MINIMAL' } } }],
    ['gemini-3.6-flash', { safetySettings: [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_ONLY_HIGH' }] }],
  ])('%s accepts %j as Google does', async (model, body) => {
    expect((await gemini(model, body)).status).toBe(200)
  })

  test.each<[string, object, RegExp]>([
    ['claude-opus-4-6', assistantTurn, /does not support assistant message prefill/],
    ['claude-sonnet-4-5', { max_tokens: 64_001 }, /^max_tokens: 64001 > 64000/],
    ['claude-sonnet-5-5', { max_tokens: 128_001 }, /^max_tokens: 128001 > 128000/],
    ['claude-sonnet-5-5', { temperature: 0.5 }, /`temperature` is deprecated/],
    ['claude-sonnet-5-5', forcedCall, /^tool_choice: type "tool" and "any" are not supported for this model\.$/],
    ['claude-sonnet-4-5', { output_config: { effort: 'low' } }, /effort/],
    ['claude-sonnet-4-5', { thinking: { type: 'adaptive' } }, /adaptive/],
    ['claude-sonnet-4-5', { thinking: { type: 'enabled', budget_tokens: 512 } }, /greater than or equal to 1024/],
    ['claude-sonnet-4-5', { thinking: { type: 'enabled', budget_tokens: 2000 } }, /must be greater than/],
    ['claude-opus-5', { thinking: { type: 'enabled', budget_tokens: 1024 } }, /adaptive/],
    ['claude-sonnet-5-5', { thinking: { type: 'disabled' } }, /^"thinking\.type\.disabled" .*between_tools/],
    [
      'claude-opus-5-5',
      { thinking: { type: 'disabled' } },
      /^"thinking\.type\.disabled" is not supported for this model\./,
    ],
    ['claude-fable-5-1', { thinking: { type: 'disabled' } }, /^"thinking\.type\.disabled"/],
    ['claude-mythos-5', { thinking: { type: 'disabled' } }, /^"thinking\.type\.disabled"/],
    ['claude-opus-5-5', { thinking: { type: 'between_tools' } }, /^"thinking\.type\.between_tools"/],
    ['claude-opus-5', { thinking: { type: 'disabled' }, output_config: { effort: 'xhigh' } }, /effort/],
    ['claude-haiku-5-5', { thinking: { type: 'disabled' }, output_config: { effort: 'max' } }, /effort/],
    ['claude-sonnet-5-5', { thinking: { type: 'between_tools' }, output_config: { effort: 'max' } }, /effort/],
  ])('%s refuses %j as Anthropic does', async (model, body, message) => {
    const answer = await claude(model, body)
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({
      type: 'error',
      error: { type: 'invalid_request_error', message: expect.stringMatching(message) },
    })
  })

  test.each<[string, object]>([
    ['claude-sonnet-4-5', assistantTurn],
    ['claude-opus-5', forcedCall],
    ['claude-haiku-5-5', forcedCall],
    ['claude-sonnet-4-5', { temperature: 0.5, thinking: { type: 'enabled', budget_tokens: 1024 } }],
    ['claude-opus-5', { thinking: { type: 'adaptive' }, output_config: { effort: 'xhigh' }, metadata: {} }],
    ['claude-haiku-5-5', { thinking: { type: 'disabled' }, output_config: { effort: 'high' } }],
    ['claude-sonnet-5-5', { thinking: { type: 'between_tools' }, output_config: { effort: 'high' } }],
  ])('%s accepts %j as Anthropic does', async (model, body) => {
    expect((await claude(model, body)).status).toBe(200)
  })

  test('accepts the key and the version of Anthropic’s current SDK', async () => {
    const current = { authorization: 'Bearer sandbox-key', 'anthropic-version': '2026-10-21' }
    expect((await claude('claude-opus-5', {}, current)).status).toBe(200)
    expect((await claude('claude-opus-5', {}, { ...current, authorization: 'Bearer wrong' })).status).toBe(401)
    expect((await claude('claude-opus-5', {}, { ...current, 'anthropic-version': '2024-01-01' })).status).toBe(400)
  })

  const five = { stop: ['a', 'b', 'c', 'd', 'e'] }
  test.each<[string, object, string | null, string]>([
    ['simulated-chat', five, 'array_above_max_length', 'stop'],
    ['gpt-4.1-mini', { max_completion_tokens: 32_769 }, 'integer_above_max_value', 'max_completion_tokens'],
    ['gpt-4.1-mini', { reasoning_effort: 'low' }, 'unsupported_parameter', 'reasoning_effort'],
    ['gpt-4.1-mini', { chat_template_kwargs: {} }, 'unknown_parameter', 'chat_template_kwargs'],
    ['gpt-6-luna', { max_tokens: 50 }, 'unsupported_parameter', 'max_tokens'],
    ['gpt-6-luna', { temperature: 0.5 }, 'unsupported_value', 'temperature'],
    ['gpt-6-luna', { presence_penalty: 0.5 }, 'unsupported_parameter', 'presence_penalty'],
    ['gpt-6-luna', { stop: ['END'] }, 'unsupported_parameter', 'stop'],
    ['gpt-6-luna', { reasoning_effort: 'low', ...functionTool }, null, 'reasoning_effort'],
    ['gpt-6-luna', { reasoning_effort: 'minimal' }, 'unsupported_value', 'reasoning_effort'],
    ['gpt-6-astra', { reasoning_effort: 'none' }, 'unsupported_value', 'reasoning_effort'],
  ])('%s refuses %j as OpenAI does', async (model, body, code, param) => {
    const answer = await openai(model, body)
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ error: { type: 'invalid_request_error', code, param } })
  })

  test.each<[string, object]>([
    ['gpt-6-luna', { temperature: 1, reasoning_effort: 'low', store: false, metadata: {} }],
    ['gpt-6-luna', { temperature: 0.5, stop: ['END'], reasoning_effort: 'none', ...functionTool }],
    ['qwen3-8b', { temperature: 0.5, chat_template_kwargs: { enable_thinking: false }, max_tokens: 200_000 }],
  ])('%s accepts %j as its server does', async (model, body) => {
    expect((await openai(model, body)).status).toBe(200)
  })

  const HARD = 'Think hard: which tram?'
  test('a model that thinks can use up the whole limit, in the shape of each vendor', async () => {
    const google = await gemini('gemini-3.6-flash', {
      contents: [{ role: 'user', parts: [{ text: HARD }] }],
      generationConfig: { maxOutputTokens: 512 },
    })
    expect(await google.json()).toMatchObject({
      candidates: [{ content: { role: 'model' }, finishReason: 'MAX_TOKENS' }],
      usageMetadata: { thoughtsTokenCount: 512 },
    })
    const anthropic = await claude('claude-opus-5', { max_tokens: 512, messages: [{ role: 'user', content: HARD }] })
    expect(await anthropic.json()).toMatchObject({
      content: [{ type: 'thinking', thinking: '' }],
      stop_reason: 'max_tokens',
      usage: { output_tokens: 512, output_tokens_details: { thinking_tokens: 512 } },
    })
    const gpt = await openai('gpt-6-luna', { max_completion_tokens: 512, messages: [{ role: 'user', content: HARD }] })
    expect(await gpt.json()).toMatchObject({
      choices: [{ message: { role: 'assistant', content: '', refusal: null }, finish_reason: 'length' }],
      usage: { completion_tokens: 512, completion_tokens_details: { reasoning_tokens: 512 } },
    })
  })
})

describe('control routes', () => {
  test('applies fault rules in order and by route, and keeps one that applies always', async () => {
    await put([
      { fault: 'status', status: 418, route: '/v1/elsewhere' },
      { fault: 'status', status: 429, times: 2 },
      { fault: 'none' },
      { fault: 'status', status: 500, times: 'always' },
    ])
    const statuses: number[] = []
    for (let call = 0; call < 5; call += 1) statuses.push((await post({ model_id: 'scribe_v2' }, UNTAGGED)).status)
    expect(statuses).toEqual([429, 429, 200, 500, 500])
    const left = (await (await fetch(`${upstream.url}/_simulator/faults`)).json()) as { rules: unknown[] }
    expect(left.rules).toHaveLength(2)
    await fetch(`${upstream.url}/_simulator/faults`, { method: 'DELETE' })
    expect((await post({ model_id: 'scribe_v2' }, UNTAGGED)).status).toBe(200)
  })

  test.each([[[{ fault: 'explode' }]], [[{ fault: 'hang', typo: 1 }]], [{}], ['text']])(
    'rejects %o as a list of fault rules',
    async (rules) => {
      expect((await put(rules)).status).toBe(400)
    },
  )

  test('returns and deletes logged calls; the log file keeps them without the key', async () => {
    await post({ model_id: 'scribe_v2', diarize: 'true' }, UNTAGGED)
    const { calls } = (await (await fetch(`${upstream.url}/_simulator/calls`)).json()) as { calls: unknown[] }
    expect(calls).toMatchObject([
      {
        route: '/v1/speech-to-text',
        state: 'answered',
        started: true,
        status: 200,
        audioBytes: UNTAGGED.length,
        audioSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
        fields: { model_id: 'scribe_v2', diarize: 'true' },
      },
    ])
    await fetch(`${upstream.url}/_simulator/calls`, { method: 'DELETE' })
    expect(upstream.calls).toHaveLength(0)
    const file = readFileSync(callLogPath, 'utf8')
    expect(
      file
        .trimEnd()
        .split('\n')
        .slice(-3)
        .map((line) => (JSON.parse(line) as { state: string }).state),
    ).toEqual(['arrived', 'started', 'answered'])
    expect(file).not.toContain('sandbox-key')
  })

  test.each(['resetBeforeRead', 'resetAfterRead', 'resetMidBody'] as const)(
    'logs a call with the fault %s as aborted',
    async (fault) => {
      await put([{ fault }])
      await expect(post({ model_id: 'scribe_v2' }, UNTAGGED)).rejects.toThrow(TypeError)
      await expect
        .poll(() => upstream.calls[0])
        .toMatchObject({ state: 'aborted', started: fault !== 'resetBeforeRead' })
    },
  )
})

test('logs each of many concurrent calls once', async () => {
  await Promise.all(Array.from({ length: 20 }, () => post({ model_id: 'scribe_v2' }, UNTAGGED)))
  expect(new Set(upstream.calls.map(({ call }) => call)).size).toBe(20)
  expect(upstream.calls.every(({ state }) => state === 'answered')).toBe(true)
})

test('the samples are small, tagged and of their documented length', async () => {
  const durations: Record<string, number> = {}
  for (const name of ['last-tram.mp3', 'two-at-the-stop.mp3', 'biglietteria-cortese.mp3']) {
    expect(sample(name).length).toBeLessThan(150_000)
    const { body } = await post({ model_id: 'scribe_v2' }, Buffer.from(sample(name)))
    expect(body.text.length).toBeGreaterThan(100)
    durations[name] = Math.round((body.words.at(-1)?.end ?? 0) * 10) / 10
  }
  expect(durations).toEqual({ 'last-tram.mp3': 24.5, 'two-at-the-stop.mp3': 23.6, 'biglietteria-cortese.mp3': 22.2 })
})

test('the process prints its port, delays its answers, and exits cleanly on SIGTERM during a call', async () => {
  const log = join(folder, 'process.jsonl')
  const main = new URL('../../infra/sandbox/upstream/main.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [main], {
    env: { UPSTREAM_PORT: '0', UPSTREAM_DELAY_MS: '150', UPSTREAM_API_KEY: 'k', UPSTREAM_CALL_LOG: log },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
    const { listening } = JSON.parse(line) as { listening: number }
    const url = `http://127.0.0.1:${listening}`
    const call = () => {
      const form = new FormData()
      form.set('model_id', 'scribe_v2')
      form.set('file', new Blob([UNTAGGED]), 'audio.mp3')
      return fetch(`${url}/v1/speech-to-text`, { method: 'POST', headers: { 'xi-api-key': 'k' }, body: form })
    }
    const before = performance.now()
    expect((await call()).status).toBe(200)
    expect(performance.now() - before).toBeGreaterThanOrEqual(145)
    await fetch(`${url}/_simulator/faults`, { method: 'PUT', body: '[{"fault":"hang"}]' })
    const open = Promise.allSettled([call()])
    await expect.poll(() => readFileSync(log, 'utf8').trimEnd().split('\n').length).toBe(5)
    child.kill('SIGTERM')
    expect(await once(child, 'exit')).toEqual([0, null])
    expect(await open).toMatchObject([{ status: 'rejected' }])
    const states = readFileSync(log, 'utf8')
      .trimEnd()
      .split('\n')
      .map((entry) => (JSON.parse(entry) as { state: string }).state)
    expect(states).toEqual(['arrived', 'started', 'answered', 'arrived', 'started', 'aborted'])
  } finally {
    child.kill('SIGKILL')
  }
})
