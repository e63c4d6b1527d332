import OpenAI, { APIError, NotFoundError, toFile } from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ObservedSandbox, useObservedSandbox } from '../../support/processes/observed-sandbox.ts'
import {
  describeAnswers,
  describeSdk,
  isPng,
  keyHeader,
  type Sdk,
  startsAsMp3,
  weatherParameters,
} from './sdk-contract.ts'

let sandbox: ObservedSandbox
let client: OpenAI
beforeAll(async () => {
  sandbox = await useObservedSandbox()
  client = new OpenAI({ baseURL: `${sandbox.info.baseUrl}/v1`, apiKey: 'not-used', fetch: sandbox.payingFetch })
})
afterAll(() => sandbox.stop())

const MODEL = 'textmodel-3.5-flash'
const user = (content: string) => [{ role: 'user' as const, content }]
const IMAGE = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram at night' }
const SPEECH = { model: 'speechvendor/flash-v2.5', input: 'Next stop: the end of the line.', voice: 'talia' }
const upload = () => toFile(sandbox.sample, 'last-tram.mp3')
const transcription = async () => ({ model: 'speechvendor/scribe-v2', file: await upload() })

const chat = {
  callOther: (headers: Record<string, string>) =>
    client.chat.completions.create({ model: MODEL, messages: user('Another question') }, { headers }),
  callInvalid: (headers: Record<string, string>) =>
    client.chat.completions.create({ model: MODEL, messages: user('Hello'), max_tokens: 70_000 }, { headers }),
  invalidParam: 'max_tokens',
}

const sdk: Sdk = {
  name: 'openai',
  sandbox: () => sandbox,
  readFailure: (error) => {
    expect(error).toBeInstanceOf(APIError)
    const { status, message, code, param } = error as APIError
    return { status, message, code, param }
  },
  calls: [
    {
      ...chat,
      name: 'chat completion',
      call: (headers) =>
        client.chat.completions.create({ model: MODEL, messages: user('Hello'), max_tokens: 100 }, { headers }),
      check: (result: OpenAI.ChatCompletion) => {
        expect(result.choices[0]?.message.content).toContain('Hello')
        expect(result.usage?.total_tokens).toBeGreaterThan(0)
      },
    },
    {
      ...chat,
      name: 'chat completion with tools',
      call: (headers) =>
        client.chat.completions.create(
          {
            model: MODEL,
            messages: user('What is the weather in Milan?'),
            tools: [{ type: 'function', function: { name: 'get_weather', parameters: weatherParameters } }],
          },
          { headers },
        ),
      check: (result: OpenAI.ChatCompletion) => {
        expect(result.choices[0]).toMatchObject({
          finish_reason: 'tool_calls',
          message: { tool_calls: [{ type: 'function', function: { name: 'get_weather' } }] },
        })
        const [call] = result.choices[0]?.message.tool_calls ?? []
        expect(JSON.parse(call?.type === 'function' ? call.function.arguments : '')).toHaveProperty('city')
      },
    },
    {
      name: 'image by URL',
      call: (headers) => client.images.generate({ ...IMAGE, response_format: 'url' }, { headers }),
      check: (result: OpenAI.ImagesResponse) => {
        expect(result.data?.[0]?.url).toContain(`${sandbox.info.baseUrl}/media/`)
        expect(result.data?.[0]?.b64_json).toBeUndefined()
      },
      callOther: (headers) => client.images.generate({ ...IMAGE, prompt: 'A bus' }, { headers }),
      callInvalid: (headers) => client.images.generate({ ...IMAGE, size: '512x512' }, { headers }),
      invalidParam: 'size',
    },
    {
      name: 'image inline',
      call: (headers) => client.images.generate({ ...IMAGE, response_format: 'b64_json' }, { headers }),
      check: (result: OpenAI.ImagesResponse) =>
        expect(isPng(Buffer.from(result.data?.[0]?.b64_json ?? '', 'base64'))).toBe(true),
      callOther: (headers) => client.images.generate({ ...IMAGE, response_format: 'url' }, { headers }),
      callInvalid: (headers) => client.images.generate({ ...IMAGE, prompt: '' }, { headers }),
      invalidParam: 'prompt',
    },
    {
      name: 'speech',
      call: async (headers) => {
        const answer = await client.audio.speech.create(SPEECH, { headers })
        return { headers: answer.headers, bytes: Buffer.from(await answer.arrayBuffer()) }
      },
      check: ({ headers, bytes }: { headers: Headers; bytes: Buffer }) => {
        expect(startsAsMp3(bytes)).toBe(true)
        expect(headers.get('x-media-url')).toContain(`${sandbox.info.baseUrl}/media/`)
      },
      callOther: (headers) => client.audio.speech.create({ ...SPEECH, speed: 1.1 }, { headers }),
      callInvalid: (headers) => client.audio.speech.create({ ...SPEECH, voice: 'alloy' }, { headers }),
      invalidParam: 'voice',
    },
    {
      name: 'transcription',
      call: async (headers) => client.audio.transcriptions.create(await transcription(), { headers }),
      check: (result: OpenAI.Audio.Transcription) => expect(result.text).toContain('I am the farebox'),
      callOther: async (headers) =>
        client.audio.transcriptions.create({ ...(await transcription()), language: 'it' }, { headers }),
      callInvalid: async (headers) =>
        client.audio.transcriptions.create({ ...(await transcription()), model: 'whisper-1' }, { headers }),
      invalidParam: 'model',
    },
    {
      name: 'verbose transcription',
      call: async (headers) =>
        client.audio.transcriptions.create(
          { ...(await transcription()), response_format: 'verbose_json' },
          { headers },
        ),
      check: (result: OpenAI.Audio.TranscriptionVerbose) => {
        expect(result).toMatchObject({ task: 'transcribe', duration: expect.any(Number), language: expect.any(String) })
        expect(result.words?.[0]).toMatchObject({ word: expect.any(String), start: expect.any(Number) })
      },
      callOther: async (headers) => client.audio.transcriptions.create(await transcription(), { headers }),
      callInvalid: async (headers) =>
        client.audio.transcriptions.create({ ...(await transcription()), response_format: 'srt' }, { headers }),
      invalidParam: 'response_format',
    },
  ],
}

describeSdk(sdk)

it('openai: parses structured output', async () => {
  const { value, transfers } = await sandbox.observe(() =>
    client.chat.completions.parse(
      {
        model: MODEL,
        messages: user('Where is the stop?'),
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'stop', strict: true, schema: weatherParameters },
        },
      },
      { headers: keyHeader() },
    ),
  )
  expect(value?.choices[0]?.message.parsed).toMatchObject({ city: expect.any(String) })
  expect(transfers).toBe(1)
})

it('openai: continues a conversation with a tool call', async () => {
  const observed = await sandbox.observe(() =>
    client.chat.completions.create(
      {
        model: MODEL,
        messages: [
          ...user('What is the weather in Milan?'),
          {
            role: 'assistant',
            content: null,
            tool_calls: [
              { id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Milan"}' } },
            ],
          },
          { role: 'tool', tool_call_id: 'call_1', content: 'Fog' },
        ],
        tools: [{ type: 'function', function: { name: 'get_weather', parameters: weatherParameters } }],
      },
      { headers: keyHeader() },
    ),
  )
  expect(observed.value?.choices[0]?.message.content).toContain('Fog')
})

it('openai: lists the models', async () => {
  const { data: listed } = await client.models.list()
  expect(listed).toHaveLength(10)
  expect(listed).toContainEqual(expect.objectContaining({ id: MODEL, object: 'model', created: expect.any(Number) }))
})

it('openai: reads one model, whose id may have a slash', async () => {
  for (const id of [MODEL, 'speechvendor/scribe-v2'])
    expect(await client.models.retrieve(id)).toMatchObject({ id, object: 'model', owned_by: expect.any(String) })
  await expect(client.models.retrieve('textmodel-0')).rejects.toThrow(NotFoundError)
})

describeAnswers(() => sandbox)
