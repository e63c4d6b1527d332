import { readFileSync } from 'node:fs'
import OpenAI, { APIError, type ClientOptions, toFile } from 'openai'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startUpstream, type Upstream } from '../../../infra/sandbox/upstream/server.ts'

const KEY = 'sk-a-key'
const MODEL = 'simulated-chat'
const recording = readFileSync(new URL('../../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url))

let upstream: Upstream
let client: OpenAI
const clientWith = (options: ClientOptions = {}) =>
  new OpenAI({ baseURL: `${upstream.url}/v1`, apiKey: KEY, maxRetries: 0, ...options })

beforeAll(async () => {
  upstream = await startUpstream({ apiKey: KEY })
  client = clientWith()
})
afterEach(() => upstream.setFaults([]))
afterAll(() => upstream.stop())

const messages = [{ role: 'user' as const, content: 'What is a farebox?' }]
const tools = [
  {
    type: 'function' as const,
    function: {
      name: 'get_weather',
      description: 'Returns the weather',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
]

async function errorOf(call: Promise<unknown>): Promise<APIError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof APIError)) throw new Error('no APIError was thrown')
  return error
}

describe('OpenAI’s SDK reads the simulated answers of', () => {
  it('a completion with its usage', async () => {
    const completion = await client.chat.completions.create({ model: MODEL, messages, max_completion_tokens: 200 })
    expect(completion.choices[0]?.message.content).toMatch(/\w/)
    expect(completion.choices[0]?.finish_reason).toBe('stop')
    expect(completion.usage?.total_tokens).toBeGreaterThan(0)
  })

  it('a streamed completion, whose text and usage are those of the whole one', async () => {
    const options = { model: MODEL, messages, max_completion_tokens: 200 }
    const whole = await client.chat.completions.create(options)
    const stream = client.chat.completions.stream({ ...options, stream_options: { include_usage: true } })
    const streamed = await stream.finalChatCompletion()
    expect(streamed.choices[0]?.message.content).toBe(whole.choices[0]?.message.content)
    expect(streamed.usage).toMatchObject({ total_tokens: whole.usage?.total_tokens })
  })

  it.each([false, true])('a tool call (streamed: %s)', async (streamed) => {
    const options = { model: MODEL, messages, tools, tool_choice: 'required' as const, max_completion_tokens: 300 }
    const completion = streamed
      ? await client.chat.completions.stream(options).finalChatCompletion()
      : await client.chat.completions.create(options)
    const [call] = completion.choices[0]?.message.tool_calls ?? []
    expect(call).toMatchObject({ type: 'function', function: { name: 'get_weather' } })
    expect(call?.type === 'function' && JSON.parse(call.function.arguments)).toMatchObject({ city: expect.any(String) })
  })

  it('JSON of a schema', async () => {
    const schema = {
      type: 'object',
      properties: { stops: { type: 'integer' } },
      required: ['stops'],
      additionalProperties: false,
    }
    const completion = await client.chat.completions.create({
      model: MODEL,
      messages,
      max_completion_tokens: 200,
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } },
    })
    expect(JSON.parse(completion.choices[0]?.message.content ?? '')).toEqual({ stops: expect.any(Number) })
  })

  it.each(['simulated-image', 'gpt-image-2.6-flare'])('an image of %s', async (model) => {
    const { data } = await client.images.generate({ model, prompt: 'A tram', size: '1024x1024', quality: 'low' })
    expect(
      Buffer.from(data?.[0]?.b64_json ?? '', 'base64')
        .subarray(1, 4)
        .toString(),
    ).toBe('PNG')
  })

  it('speech', async () => {
    const response = await client.audio.speech.create({ model: 'simulated-speech', voice: 'alloy', input: 'Hello.' })
    expect(response.headers.get('content-type')).toBe('audio/mpeg')
    expect((await response.arrayBuffer()).byteLength).toBeGreaterThan(1000)
  })

  it('a transcript with words', async () => {
    const transcript = await client.audio.transcriptions.create({
      model: 'simulated-whisper',
      file: await toFile(recording, 'audio.mp3'),
      response_format: 'verbose_json',
      timestamp_granularities: ['word'],
      language: 'en',
    })
    expect(transcript.text).toContain('tram')
    expect(transcript.words?.[0]).toEqual({ word: 'Is', start: expect.any(Number), end: expect.any(Number) })
  })

  it('the list of models with shutdown dates, and one model', async () => {
    const { data: models } = await client.models.list()
    expect(models.find(({ id }) => id === 'gpt-4.1-mini')?.shutdown_date).toBe('2027-01-14')
    expect(await client.models.retrieve('gpt-6-luna')).toMatchObject({ object: 'model', shutdown_date: null })
  })
})

const create = (changes: object, using = client) =>
  errorOf(using.chat.completions.create({ model: MODEL, messages, ...changes }))

describe('OpenAI’s SDK reads the simulated errors for', () => {
  it('a wrong key', async () => {
    expect(await create({}, clientWith({ apiKey: 'sk-wrong' }))).toMatchObject({ status: 401, code: 'invalid_api_key' })
  })

  it('an unknown field', async () => {
    expect(await create({ hologram: true })).toMatchObject({ status: 400, type: 'invalid_request_error' })
  })

  it('a language that is not ISO 639-1', async () => {
    const file = await toFile(recording, 'audio.mp3')
    const call = client.audio.transcriptions.create({ model: 'simulated-whisper', file, language: 'eng' })
    expect(await errorOf(call)).toMatchObject({ status: 400, code: 'invalid_language_format', param: 'language' })
  })

  it('a file above 25 MB', async () => {
    const file = await toFile(Buffer.alloc(26_214_400), 'audio.mp3')
    const call = client.audio.transcriptions.create({ model: 'simulated-whisper', file })
    expect(await errorOf(call)).toMatchObject({ status: 413 })
  })

  it('a prompt that moderation refuses', async () => {
    const call = client.images.generate({ model: 'simulated-image', prompt: 'please refuse' })
    expect(await errorOf(call)).toMatchObject({ status: 400, code: 'moderation_blocked' })
  })

  it('an unknown model of the list', async () => {
    expect(await errorOf(client.models.retrieve('unknown'))).toMatchObject({ status: 404, code: 'model_not_found' })
  })

  it.each([429, 500, 503])('a status of %i', async (status) => {
    const error = { message: 'Try again.', type: 'server_error', param: null, code: 'busy' }
    upstream.setFaults([{ fault: 'status', status, body: { error } }])
    expect(await create({})).toMatchObject({ status, code: 'busy', type: 'server_error' })
  })
})
