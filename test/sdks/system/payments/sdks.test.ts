import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import Anthropic from '@anthropic-ai/sdk'
import { ElevenLabsClient, ElevenLabsError } from '@elevenlabs/elevenlabs-js'
import { ChatAnthropic } from '@langchain/anthropic'
import { ChatOpenAI } from '@langchain/openai'
import { generateSpeech, generateText, transcribe } from 'ai'
import OpenAI, { APIError, NotFoundError, toFile } from 'openai'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startUpstream, type Upstream } from '../../../../infra/sandbox/upstream/server.ts'
import { type ObservedSandbox, useObservedSandbox } from '../../../support/processes/observed-sandbox.ts'
import { imageCall, MODEL, ONCE, otherTextUses, readAiSdkFailure, textCall } from '../../support/ai-sdk.ts'
import {
  describeAnswers,
  describeSdk,
  isPng,
  keyHeader,
  readVendorFailure,
  type Sdk,
  type SdkCall,
  startsAsMp3,
  weatherParameters,
} from '../../support/sdk-contract.ts'

const user = (content: string) => [{ role: 'user' as const, content }]
const IMAGE = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram at night' }
const SPEECH = { model: 'speechvendor/flash-v2.5', input: 'Next stop: the end of the line.', voice: 'talia' }
const tools = [
  {
    name: 'get_weather',
    description: 'Returns the weather',
    input_schema: { ...weatherParameters, required: ['city'] },
  },
]
const tool = {
  type: 'function' as const,
  function: { name: 'get_weather', description: 'Returns the weather', parameters: weatherParameters },
}
interface Message {
  text: string
  tool_calls: { name: string; args: Record<string, unknown> }[]
  usage_metadata?: { total_tokens: number }
}
const SPEECH_MODEL = 'speechvendor/flash-v2.5'
const OTHER_SAMPLE = new URL('../../../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url)
const TRANSCRIPTION_MODEL = 'speechvendor/scribe-v2'
const KEY = 'sk_a_key'
const recording = readFileSync(new URL('../../../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url))
async function errorOf(call: PromiseLike<unknown>): Promise<ElevenLabsError> {
  try {
    await call
  } catch (error) {
    if (error instanceof ElevenLabsError) return error
  }
  throw new Error('no ElevenLabsError was thrown')
}

describe('the SDK of OpenAI', () => {
  let sandbox: ObservedSandbox
  let client: OpenAI
  beforeAll(async () => {
    sandbox = await useObservedSandbox()
    client = new OpenAI({ baseURL: `${sandbox.info.baseUrl}/v1`, apiKey: 'not-used', fetch: sandbox.payingFetch })
  })

  afterAll(() => sandbox.stop())

  const MODEL = 'textmodel-3.5-flash'
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
          expect(result).toMatchObject({
            task: 'transcribe',
            duration: expect.any(Number),
            language: expect.any(String),
          })
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
})

describe('the SDK of Anthropic', () => {
  let sandbox: ObservedSandbox
  let client: Anthropic
  beforeAll(async () => {
    sandbox = await useObservedSandbox()
    client = new Anthropic({ baseURL: sandbox.info.baseUrl, apiKey: 'not-used', fetch: sandbox.payingFetch })
  })

  afterAll(() => sandbox.stop())

  const MODEL = 'textmodel-3.5-flash'
  const others = {
    callOther: (headers: Record<string, string>) =>
      client.messages.create({ model: MODEL, messages: user('Another question'), max_tokens: 100 }, { headers }),
    callInvalid: (headers: Record<string, string>) =>
      client.messages.create({ model: 'claude-opus', messages: user('Hello'), max_tokens: 100 }, { headers }),
    invalidParam: 'model',
  }
  const sdk: Sdk = {
    name: '@anthropic-ai/sdk',
    sandbox: () => sandbox,
    readFailure: (error) => {
      expect(error).toBeInstanceOf(Anthropic.APIError)
      return readVendorFailure(error)
    },
    calls: [
      {
        ...others,
        name: 'message',
        call: (headers) =>
          client.messages.create(
            { model: MODEL, system: 'Be brief.', messages: user('Hello'), max_tokens: 100 },
            { headers },
          ),
        check: (result: Anthropic.Message) => {
          expect(result).toMatchObject({
            type: 'message',
            stop_reason: 'end_turn',
            usage: { input_tokens: expect.any(Number) },
          })
          expect(result.content[0]).toMatchObject({ type: 'text', text: expect.stringContaining('Hello') })
        },
      },
      {
        ...others,
        name: 'message with tools',
        call: (headers) =>
          client.messages.create(
            { model: MODEL, messages: user('What is the weather in Milan?'), max_tokens: 500, tools },
            { headers },
          ),
        check: (result: Anthropic.Message) => {
          expect(result.stop_reason).toBe('tool_use')
          expect(result.content.at(-1)).toMatchObject({
            type: 'tool_use',
            name: 'get_weather',
            input: { city: expect.any(String) },
          })
        },
      },
    ],
  }
  describeSdk(sdk)

  it('@anthropic-ai/sdk: continues a conversation with a tool call', async () => {
    const observed = await sandbox.observe(() =>
      client.messages.create(
        {
          model: MODEL,
          max_tokens: 200,
          tools,
          messages: [
            ...user('What is the weather in Milan?'),
            {
              role: 'assistant',
              content: [{ type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Milan' } }],
            },
            { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'Fog' }] },
          ],
        },
        { headers: keyHeader() },
      ),
    )
    expect(observed.value?.content[0]).toMatchObject({ type: 'text', text: expect.stringContaining('Fog') })
  })

  it('@anthropic-ai/sdk: lists the models', async () => {
    const listed: { id: string }[] = []
    for await (const model of client.models.list()) listed.push(model)
    expect(listed.map(({ id }) => id)).toContain(MODEL)
    expect(listed).toHaveLength(10)
  })

  it('@anthropic-ai/sdk: reads one model, whose id may have a slash', async () => {
    for (const id of [MODEL, 'speechvendor/scribe-v2'])
      expect(await client.models.retrieve(id)).toMatchObject({
        id,
        type: 'model',
        display_name: id,
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      })
    await expect(client.models.retrieve('textmodel-0')).rejects.toThrow(Anthropic.NotFoundError)
  })

  describeAnswers(() => sandbox)
})

describe('LangChain', () => {
  let sandbox: ObservedSandbox
  beforeAll(async () => {
    sandbox = await useObservedSandbox()
  })

  afterAll(() => sandbox.stop())

  const MODEL = 'textmodel-3.5-flash'
  /** Both accept headers with the model or with each call; an agent that makes many calls needs a key for each. */
  const chatOpenAI = (defaultHeaders: Record<string, string>, id = MODEL) =>
    new ChatOpenAI({
      model: id,
      maxTokens: 300,
      apiKey: 'not-used',
      configuration: { baseURL: `${sandbox.info.baseUrl}/v1`, fetch: sandbox.payingFetch, defaultHeaders },
    })
  const chatAnthropic = (defaultHeaders: Record<string, string>, id = MODEL) =>
    new ChatAnthropic({
      model: id,
      maxTokens: 300,
      apiKey: 'not-used',
      anthropicApiUrl: sandbox.info.baseUrl,
      clientOptions: { fetch: sandbox.payingFetch, defaultHeaders },
    })
  function sdkOf(name: string, chat: typeof chatOpenAI | typeof chatAnthropic): Sdk {
    return {
      name,
      sandbox: () => sandbox,
      readFailure: readVendorFailure,
      calls: [
        {
          name: 'invoke',
          call: (headers) => chat(headers).invoke('Hello'),
          check: (message: Message) => {
            expect(message.text).toContain('Hello')
            expect(message.usage_metadata?.total_tokens).toBeGreaterThan(0)
          },
          callOther: (headers) => chat(headers).invoke('Another question'),
          callInvalid: (headers) => chat(headers, 'gpt-4o').invoke('Hello'),
          invalidParam: 'model',
        },
      ],
      otherUses: [
        {
          name: 'bindTools',
          call: (headers) => chat(headers).bindTools([tool]).invoke('What is the weather in Milan?'),
          check: (message: Message) =>
            expect(message.tool_calls).toMatchObject([{ name: 'get_weather', args: { city: expect.any(String) } }]),
        },
        {
          name: 'withStructuredOutput',
          call: (headers) => chat(headers).withStructuredOutput(weatherParameters).invoke('Where?'),
          check: (object: unknown) => expect(object).toMatchObject({ city: expect.any(String) }),
        },
      ],
    }
  }
  describeSdk(sdkOf('ChatOpenAI', chatOpenAI))

  describeSdk(sdkOf('ChatAnthropic', chatAnthropic))

  it('ChatOpenAI and ChatAnthropic prefer a call’s header to the model’s', async () => {
    const [first, second] = [keyHeader(), keyHeader()]
    const { answers } = await sandbox.observe(async () => {
      await chatOpenAI(first).invoke('Hello', { options: { headers: second } })
      await chatAnthropic(second).invoke('Hello', { headers: first })
    })
    expect(answers.map(({ idempotencyKey }) => idempotencyKey)).toEqual(
      [second, second, first, first].map((header) => header['x-idempotency-key']),
    )
  })

  describeAnswers(() => sandbox)
})

describe('the AI SDK with OpenAI’s provider', () => {
  let sandbox: ObservedSandbox
  beforeAll(async () => {
    sandbox = await useObservedSandbox()
  })

  afterAll(() => sandbox.stop())

  const settings = () => ({ baseURL: `${sandbox.info.baseUrl}/v1`, apiKey: 'not-used', fetch: sandbox.payingFetch })
  const openai = () => createOpenAI(settings())
  /** This SDK sends no Accept header, so its caller must request the audio itself; the default answer is JSON. */
  const speechCall: SdkCall = {
    name: 'generateSpeech',
    call: (headers) => speak(headers),
    check: ({ audio }: Awaited<ReturnType<typeof generateSpeech>>) => {
      expect(audio.mediaType).toBe('audio/mpeg')
      expect(startsAsMp3(audio.uint8Array)).toBe(true)
    },
    callOther: (headers) => speak(headers, { speed: 1.1, ...ONCE }),
    callInvalid: (headers) => speak(headers, { voice: 'alloy' }),
    invalidParam: 'voice',
  }
  function speak(
    headers: Record<string, string>,
    options: { speed?: number; voice?: string; maxRetries?: number } = {},
  ) {
    return generateSpeech({
      model: openai().speech(SPEECH_MODEL),
      text: 'Next stop: the end of the line.',
      voice: 'talia',
      ...options,
      headers: { ...headers, accept: 'audio/mpeg' },
    })
  }
  /**
   * Without `providerOptions.openai`: given any, the package adds fields such as `temperature`, which the closed transcription
   * request rejects.
   */
  const transcribeCall: SdkCall = {
    name: 'transcribe',
    call: (headers) => hear(headers),
    check: ({ text }: Awaited<ReturnType<typeof transcribe>>) => expect(text).toContain('I am the farebox'),
    callOther: async (headers) => hear(headers, { audio: await readFile(OTHER_SAMPLE), ...ONCE }),
    callInvalid: (headers) => hear(headers, { providerOptions: { openai: { language: 'it' } } }),
    invalidParam: 'temperature',
  }
  function hear(headers: Record<string, string>, options: Partial<Parameters<typeof transcribe>[0]> = {}) {
    return transcribe({
      model: openai().transcription(TRANSCRIPTION_MODEL),
      audio: sandbox.sample,
      headers,
      ...options,
    })
  }
  describeSdk({
    name: '@ai-sdk/openai',
    sandbox: () => sandbox,
    readFailure: readAiSdkFailure,
    otherUses: otherTextUses((id) => openai().chat(id)),
    calls: [textCall((id) => openai().chat(id)), imageCall((id) => openai().image(id)), speechCall, transcribeCall],
  })

  describeAnswers(() => sandbox)
})

describe('the AI SDK with Anthropic’s provider', () => {
  let sandbox: ObservedSandbox
  beforeAll(async () => {
    sandbox = await useObservedSandbox()
  })

  afterAll(() => sandbox.stop())

  const anthropic = () =>
    createAnthropic({ baseURL: `${sandbox.info.baseUrl}/v1`, apiKey: 'not-used', fetch: sandbox.payingFetch })
  describeSdk({
    name: '@ai-sdk/anthropic',
    sandbox: () => sandbox,
    readFailure: readAiSdkFailure,
    calls: [textCall((id) => anthropic()(id))],
    otherUses: otherTextUses((id) => anthropic()(id)),
  })

  it('the AI SDK repeats a reused key twice despite x-should-retry: false, at no cost', async () => {
    const headers = keyHeader()
    const generate = (prompt: string) =>
      generateText({ model: anthropic()(MODEL), maxOutputTokens: 100, prompt, headers })
    await generate('Hello')
    const observed = await sandbox.observe(() => generate('Another question'))
    expect(observed).toMatchObject({ statuses: [409, 409, 409], upstreamCalls: 0, transfers: 0 })
    expect(readAiSdkFailure(observed.error)).toMatchObject({ status: 409, code: 'idempotency_key_reused' })
  })

  describeAnswers(() => sandbox)
})

describe('the AI SDK with a compatible provider', () => {
  let sandbox: ObservedSandbox
  beforeAll(async () => {
    sandbox = await useObservedSandbox()
  })

  afterAll(() => sandbox.stop())

  const compatible = () =>
    createOpenAICompatible({
      name: 'farebox',
      baseURL: `${sandbox.info.baseUrl}/v1`,
      apiKey: 'not-used',
      supportsStructuredOutputs: true,
      fetch: sandbox.payingFetch,
    })
  describeSdk({
    name: '@ai-sdk/openai-compatible',
    sandbox: () => sandbox,
    readFailure: readAiSdkFailure,
    otherUses: otherTextUses((id) => compatible().chatModel(id)),
    calls: [
      textCall((id) => compatible().chatModel(id)),
      // This package fetches the hosted image although it has requested the bytes inline.
      { ...imageCall((id) => compatible().imageModel(id)), fetchesAfterwards: [200] },
    ],
  })

  describeAnswers(() => sandbox)
})

describe('the SDK of ElevenLabs', () => {
  let upstream: Upstream
  let client: ElevenLabsClient
  const clientWith = (apiKey: string) => new ElevenLabsClient({ baseUrl: upstream.url, apiKey, maxRetries: 0 })
  beforeAll(async () => {
    upstream = await startUpstream({ apiKey: KEY })
    client = clientWith(KEY)
  })

  afterEach(() => upstream.setFaults([]))

  afterAll(() => upstream.stop())

  const speak = (voice: string, text = 'Mind the step.', using = client) =>
    using.textToSpeech.convert(voice, {
      text,
      modelId: 'eleven_flash_v2_5',
      outputFormat: 'mp3_44100_128',
      voiceSettings: { speed: 1.1 },
    })
  describe('ElevenLabs’ SDK reads the simulated answers of', () => {
    it('speech', async () => {
      const audio = await new Response(await speak('eleven-darian')).arrayBuffer()
      expect(audio.byteLength).toBeGreaterThan(1000)
    })

    it('a transcript with speakers, characters and events', async () => {
      const transcript = await client.speechToText.convert({
        modelId: 'scribe_v2',
        file: new Blob([recording], { type: 'audio/mpeg' }),
        diarize: true,
        timestampsGranularity: 'character',
        tagAudioEvents: true,
        languageCode: 'en',
      })
      if (!('words' in transcript)) throw new Error('no words')
      expect(transcript.text).toContain('tram')
      expect(transcript.words.some(({ speakerId }) => speakerId === 'speaker_1')).toBe(true)
      expect(transcript.words[0]?.characters?.[0]).toMatchObject({
        text: expect.any(String),
        start: expect.any(Number),
      })
    })

    it('a blank recording', async () => {
      const blank = { language_code: 'eng', language_probability: 0.31, text: '', words: [], transcription_id: 'a' }
      upstream.setFaults([{ fault: 'status', status: 200, body: blank }])
      const file = new Blob([recording], { type: 'audio/mpeg' })
      expect(await client.speechToText.convert({ modelId: 'scribe_v2', file })).toMatchObject({ text: '', words: [] })
    })

    it('the account’s models and voices', async () => {
      expect((await client.models.list()).map(({ modelId }) => modelId)).toContain('eleven_flash_v2_5')
      const { voices } = await client.voices.search({ voiceIds: ['eleven-darian', 'unknown-talia'] })
      expect(voices.map(({ voiceId }) => voiceId)).toEqual(['eleven-darian'])
    })
  })

  describe('ElevenLabs’ SDK reads the simulated errors for', () => {
    it.each([
      ['unknown-voice', 'voice_not_found'],
      ['library-voice', 'invalid_uid'],
    ])('the voice %s', async (voice, status) => {
      expect(await errorOf(speak(voice))).toMatchObject({ statusCode: 400, body: { detail: { status } } })
    })

    it('a text that is too long', async () => {
      const error = await errorOf(speak('eleven-darian', 'a'.repeat(40_001)))
      expect(error).toMatchObject({ statusCode: 400, body: { detail: { status: 'max_character_limit_exceeded' } } })
    })

    it('a wrong key', async () => {
      const error = await errorOf(speak('eleven-darian', 'Hello.', clientWith('wrong')))
      expect(error).toMatchObject({ statusCode: 401, body: { detail: { status: 'invalid_api_key' } } })
    })

    it('a file that is not audio', async () => {
      const file = new Blob(['not audio'], { type: 'audio/mpeg' })
      const error = await errorOf(client.speechToText.convert({ modelId: 'scribe_v2', file }))
      expect(error).toMatchObject({ statusCode: 400 })
    })

    it.each([422, 429, 500])('a status of %i', async (status) => {
      upstream.setFaults([{ fault: 'status', status, body: { detail: { status: 'a_code', message: 'Try again.' } } }])
      expect(await errorOf(speak('eleven-darian'))).toMatchObject({ statusCode: status })
    })
  })
})
