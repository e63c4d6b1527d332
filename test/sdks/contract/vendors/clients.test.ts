import { readFileSync } from 'node:fs'
import Anthropic, { APIError as AnthropicError, type ClientOptions as AnthropicOptions } from '@anthropic-ai/sdk'
import { ApiError, FunctionCallingConfigMode, GoogleGenAI, ThinkingLevel } from '@google/genai'
import OpenAI, { APIError, type ClientOptions, toFile } from 'openai'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startUpstream, type Upstream } from '../../../../infra/sandbox/upstream/server.ts'

const recording = readFileSync(new URL('../../../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url))
const messages = [{ role: 'user' as const, content: 'What is a farebox?' }]
const functionDeclarations = [
  {
    name: 'get_weather',
    description: 'Returns the weather',
    parametersJsonSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
]
const toolConfig = { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } }
async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = []
  for await (const item of items) collected.push(item)
  return collected
}
const textOf = ({ content }: Anthropic.Message) =>
  content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')

async function openaiErrorOf(call: Promise<unknown>): Promise<APIError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof APIError)) throw new Error('no APIError was thrown')
  return error
}

describe('the client of OpenAI', () => {
  const KEY = 'sk-a-key'
  const MODEL = 'simulated-chat'
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
      expect(call?.type === 'function' && JSON.parse(call.function.arguments)).toMatchObject({
        city: expect.any(String),
      })
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
    openaiErrorOf(using.chat.completions.create({ model: MODEL, messages, ...changes }))
  describe('OpenAI’s SDK reads the simulated errors for', () => {
    it('a wrong key', async () => {
      expect(await create({}, clientWith({ apiKey: 'sk-wrong' }))).toMatchObject({
        status: 401,
        code: 'invalid_api_key',
      })
    })

    it('an unknown field', async () => {
      expect(await create({ hologram: true })).toMatchObject({ status: 400, type: 'invalid_request_error' })
    })

    it('a language that is not ISO 639-1', async () => {
      const file = await toFile(recording, 'audio.mp3')
      const call = client.audio.transcriptions.create({ model: 'simulated-whisper', file, language: 'eng' })
      expect(await openaiErrorOf(call)).toMatchObject({
        status: 400,
        code: 'invalid_language_format',
        param: 'language',
      })
    })

    it('a file above 25 MB', async () => {
      const file = await toFile(Buffer.alloc(26_214_400), 'audio.mp3')
      const call = client.audio.transcriptions.create({ model: 'simulated-whisper', file })
      expect(await openaiErrorOf(call)).toMatchObject({ status: 413 })
    })

    it('a prompt that moderation refuses', async () => {
      const call = client.images.generate({ model: 'simulated-image', prompt: 'please refuse' })
      expect(await openaiErrorOf(call)).toMatchObject({ status: 400, code: 'moderation_blocked' })
    })

    it('an unknown model of the list', async () => {
      expect(await openaiErrorOf(client.models.retrieve('unknown'))).toMatchObject({
        status: 404,
        code: 'model_not_found',
      })
    })

    it.each([429, 500, 503])('a status of %i', async (status) => {
      const error = { message: 'Try again.', type: 'server_error', param: null, code: 'busy' }
      upstream.setFaults([{ fault: 'status', status, body: { error } }])
      expect(await create({})).toMatchObject({ status, code: 'busy', type: 'server_error' })
    })
  })
})

async function geminiErrorOf(call: Promise<unknown>): Promise<ApiError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ApiError)) throw new Error('no ApiError was thrown')
  return error
}

describe('the client of Google', () => {
  const KEY = 'a-key'
  const MODEL = 'gemini-3.6-flash'
  let upstream: Upstream
  let client: GoogleGenAI
  /** The version that farebox calls; the SDK's own default is `v1` since its version 3. */
  const clientWith = (apiKey: string) =>
    new GoogleGenAI({
      apiKey,
      httpOptions: { baseUrl: upstream.url, apiVersion: 'v1beta', retryOptions: { attempts: 1 } },
    })
  beforeAll(async () => {
    upstream = await startUpstream({ apiKey: KEY })
    client = clientWith(KEY)
  })

  afterEach(() => upstream.setFaults([]))

  afterAll(() => upstream.stop())

  const question = {
    model: MODEL,
    contents: 'What is a farebox?',
    config: { maxOutputTokens: 2048, thinkingConfig: { thinkingLevel: ThinkingLevel.LOW } },
  }
  describe('Google’s SDK reads the simulated answers of', () => {
    it('a text with its usage', async () => {
      const answer = await client.models.generateContent(question)
      expect(answer.text).toMatch(/\w/)
      expect(answer.candidates?.[0]?.finishReason).toBe('STOP')
      expect(answer.usageMetadata?.thoughtsTokenCount).toBeGreaterThan(0)
    })

    it('a streamed text, whose text and usage are those of the whole one', async () => {
      const whole = await client.models.generateContent(question)
      const chunks = await collect(await client.models.generateContentStream(question))
      expect(chunks.map(({ text }) => text ?? '').join('')).toBe(whole.text)
      expect(chunks.at(-1)?.usageMetadata).toEqual(whole.usageMetadata)
      expect(chunks.at(-1)?.candidates?.[0]?.finishReason).toBe('STOP')
    })

    it('a function call with its thought signature, whole and streamed', async () => {
      const options = { ...question, config: { ...question.config, tools: [{ functionDeclarations }], toolConfig } }
      const answer = await client.models.generateContent(options)
      expect(answer.functionCalls).toMatchObject([{ name: 'get_weather', args: { city: expect.any(String) } }])
      expect(answer.candidates?.[0]?.content?.parts?.[0]?.thoughtSignature).toEqual(expect.any(String))
      const chunks = await collect(await client.models.generateContentStream(options))
      expect(chunks.flatMap(({ functionCalls = [] }) => functionCalls)).toEqual(answer.functionCalls)
    })

    it('JSON of a schema', async () => {
      const responseJsonSchema = { type: 'object', properties: { stops: { type: 'integer' } }, required: ['stops'] }
      const config = { ...question.config, responseMimeType: 'application/json', responseJsonSchema }
      const answer = await client.models.generateContent({ ...question, config })
      expect(JSON.parse(answer.text ?? '')).toEqual({ stops: expect.any(Number) })
    })

    it('an image', async () => {
      const answer = await client.models.generateContent({
        model: 'gemini-3.1-flash-lite-image',
        contents: 'A tram',
        config: { responseModalities: ['IMAGE'], imageConfig: { aspectRatio: '1:1', imageSize: '1K' } },
      })
      expect(answer.data?.length).toBeGreaterThan(1000)
      expect(answer.candidates?.[0]?.content?.parts?.[0]?.inlineData?.mimeType).toBe('image/png')
    })

    it('a blocked prompt', async () => {
      const answer = await client.models.generateContent({ ...question, contents: 'please block' })
      expect(answer.promptFeedback?.blockReason).toBe('PROHIBITED_CONTENT')
    })

    it('a model, and the list', async () => {
      expect(await client.models.get({ model: MODEL })).toMatchObject({
        name: `models/${MODEL}`,
        outputTokenLimit: 65_536,
      })
      const models = await collect(await client.models.list())
      expect(models.map(({ name }) => name)).toContain('models/gemini-3.8-flash')
    })
  })

  describe('Google’s SDK reads the simulated errors for', () => {
    it('a wrong key', async () => {
      const error = await geminiErrorOf(clientWith('wrong').models.generateContent(question))
      expect(error).toMatchObject({ status: 400, message: expect.stringContaining('API_KEY_INVALID') })
    })

    it('an unknown model', async () => {
      expect(await geminiErrorOf(client.models.generateContent({ ...question, model: 'unknown' }))).toMatchObject({
        status: 404,
      })
      expect(await geminiErrorOf(client.models.get({ model: 'unknown' }))).toMatchObject({ status: 404 })
    })

    it('penalties', async () => {
      const config = { ...question.config, presencePenalty: 0.5 }
      const error = await geminiErrorOf(client.models.generateContent({ ...question, config }))
      expect(error).toMatchObject({ status: 400, message: expect.stringContaining('enalty is not enabled') })
    })

    it('an image from a model of text', async () => {
      const config = { responseModalities: ['IMAGE'] }
      expect(await geminiErrorOf(client.models.generateContent({ ...question, config }))).toMatchObject({ status: 400 })
    })

    it.each([429, 500, 503])('a status of %i', async (status) => {
      const body = { error: { code: status, message: 'Try again.', status: 'UNAVAILABLE' } }
      upstream.setFaults([{ fault: 'status', status, body }])
      const error = await geminiErrorOf(client.models.generateContent(question))
      expect(error).toMatchObject({ status, message: expect.stringContaining('UNAVAILABLE') })
    })
  })
})

async function anthropicErrorOf(call: Promise<unknown>): Promise<AnthropicError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof AnthropicError)) throw new Error('no APIError was thrown')
  return error
}

describe('the client of Anthropic', () => {
  const KEY = 'sk-ant-a-key'
  const MODEL = 'claude-sonnet-5-5'
  let upstream: Upstream
  let client: Anthropic
  const clientWith = (options: AnthropicOptions = {}) =>
    new Anthropic({ baseURL: upstream.url, apiKey: KEY, maxRetries: 0, ...options })
  beforeAll(async () => {
    upstream = await startUpstream({ apiKey: KEY })
    client = clientWith()
  })

  afterEach(() => upstream.setFaults([]))

  afterAll(() => upstream.stop())

  const question = { model: MODEL, messages, max_tokens: 2048 }
  const tools = [
    {
      name: 'get_weather',
      description: 'Returns the weather',
      input_schema: { type: 'object' as const, properties: { city: { type: 'string' } }, required: ['city'] },
    },
  ]
  describe('Anthropic’s SDK reads the simulated answers of', () => {
    it('a message with its usage', async () => {
      const message = await client.messages.create({ ...question, system: 'Be brief.' })
      expect(textOf(message)).toMatch(/\w/)
      expect(message).toMatchObject({
        type: 'message',
        stop_reason: 'end_turn',
        usage: { input_tokens: expect.any(Number) },
      })
    })

    it('a streamed message, whose text and usage are those of the whole one', async () => {
      const whole = await client.messages.create(question)
      const streamed = await client.messages.stream(question).finalMessage()
      expect(textOf(streamed)).toBe(textOf(whole))
      expect(streamed.usage.output_tokens).toBe(whole.usage.output_tokens)
      expect(streamed.stop_reason).toBe(whole.stop_reason)
    })

    it.each([false, true])('a tool call (streamed: %s)', async (isStreamed) => {
      // Of the newest models this one may be forced to call.
      const options = { ...question, model: 'claude-haiku-5-5', tools, tool_choice: { type: 'any' as const } }
      const message = isStreamed
        ? await client.messages.stream(options).finalMessage()
        : await client.messages.create(options)
      const call = message.content.find((block) => block.type === 'tool_use')
      expect(call).toMatchObject({ name: 'get_weather', input: { city: expect.any(String) } })
      expect(message.stop_reason).toBe('tool_use')
    })

    it('a refusal', async () => {
      const refused = [{ role: 'user' as const, content: 'please refuse' }]
      expect(await client.messages.create({ ...question, messages: refused })).toMatchObject({ stop_reason: 'refusal' })
    })

    it('a model with its lifecycle', async () => {
      expect(await client.models.retrieve(MODEL)).toMatchObject({ id: MODEL, lifecycle: 'active', retires_at: null })
      expect(await client.models.retrieve('claude-sonnet-4-5')).toMatchObject({ lifecycle: 'deprecated' })
    })
  })

  describe('Anthropic’s SDK reads the simulated errors for', () => {
    it('a wrong key', async () => {
      const error = await anthropicErrorOf(clientWith({ apiKey: 'wrong' }).messages.create(question))
      expect(error).toMatchObject({ status: 401, type: 'authentication_error' })
    })

    it('an unknown model', async () => {
      const error = await anthropicErrorOf(client.messages.create({ ...question, model: 'gpt-6' }))
      expect(error).toMatchObject({ status: 404, type: 'not_found_error' })
      expect(await anthropicErrorOf(client.models.retrieve('gpt-6'))).toMatchObject({
        status: 404,
        type: 'not_found_error',
      })
    })

    it('a conversation that ends with the model', async () => {
      const prefilled = [...messages, { role: 'assistant' as const, content: 'A farebox is' }]
      const error = await anthropicErrorOf(client.messages.create({ ...question, messages: prefilled }))
      expect(error).toMatchObject({ status: 400, type: 'invalid_request_error' })
      expect(error.message).toContain('prefill')
    })

    it('more output tokens than the model has', async () => {
      const stream = client.messages.stream({ ...question, max_tokens: 1_000_000 })
      expect(await anthropicErrorOf(stream.finalMessage())).toMatchObject({
        status: 400,
        type: 'invalid_request_error',
      })
    })

    it.each([
      [429, 'rate_limit_error'],
      [500, 'api_error'],
      [529, 'overloaded_error'],
    ])('a status of %i', async (status, type) => {
      const body = { type: 'error', error: { type, message: 'Try again.' }, request_id: 'req_1' }
      upstream.setFaults([{ fault: 'status', status, body }])
      expect(await anthropicErrorOf(client.messages.create(question))).toMatchObject({ status, type })
    })
  })
})
