import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DeploymentEntry, parseDeploymentsFile } from '#shared/catalog/deployments-file.ts'
import type { TextRequest } from '#shared/operations/text/text-request.ts'
import { sandboxDeployments } from '../../../infra/sandbox/deployments.ts'
import { startUpstream, type Upstream } from '../../../infra/sandbox/upstream/server.ts'
import { createDeployments } from '../../../workers/providers/create-deployments.ts'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import { createHttp, type HttpRequest } from '../../../workers/providers/http.ts'
import type { ModelStatus } from '../../../workers/providers/model-look-up.ts'
import type { ImageInput, SpeechInput, TranscriptionInput } from '../../../workers/providers/provider.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

const HEADER = `// Written by request-bodies.test.ts from what the adapters send (\`npx vitest run <file> --update\`). The compiler checks
// each body against the types of the vendor's own SDK, which excess properties and unknown values violate.
`
/** Conversations that together use every field and part of a text request. */
const schema = { type: 'object', properties: { stops: { type: 'integer' } }, required: ['stops'] }
const tool = { name: 'get_weather', description: 'Returns the weather', parameters: schema }
const user = (text: string) => ({ role: 'user' as const, parts: [{ type: 'text' as const, text }] })
const TEXTS: readonly TextRequest[] = [
  { messages: [user('Hello')], max_output_tokens: 64 },
  {
    system: 'Be brief.',
    messages: [user('Hello')],
    max_output_tokens: 32_768,
    temperature: 0.5,
    top_p: 0.9,
    top_k: 40,
    seed: 7,
    presence_penalty: 0.5,
    frequency_penalty: 0.5,
    stop_sequences: ['END', 'STOP'],
    response_format: { type: 'json_object' },
  },
  {
    messages: [user('Hello')],
    max_output_tokens: 512,
    response_format: { type: 'json_schema', name: 'answer', schema },
  },
  {
    messages: [
      {
        role: 'user',
        parts: [
          { type: 'text', text: 'What is this?' },
          { type: 'image', source: { kind: 'inline', media_type: 'image/png', base64: 'iVBORw0KGgo=' } },
        ],
      },
      {
        role: 'assistant',
        parts: [
          { type: 'text', text: 'I look it up.' },
          { type: 'tool_call', id: 'call_1', name: 'get_weather', arguments_json: '{"stops":3}' },
        ],
      },
      { role: 'user', parts: [{ type: 'tool_result', tool_call_id: 'call_1', text: 'Rain', is_error: true }] },
    ],
    max_output_tokens: 4096,
    tools: [tool],
    tool_choice: { name: 'get_weather' },
  },
  ...(['auto', 'none', 'required'] as const).map((tool_choice) => ({
    messages: [user('Hello')],
    max_output_tokens: 2048,
    tools: [tool],
    tool_choice,
  })),
]
const IMAGE: ImageInput = { prompt: 'A tram', size: '1024x1024' }
const SPEECH: SpeechInput = { text: 'Mind the step.', voice: 'a-voice', speed: 1.1 }
const audio = new Uint8Array([0xff, 0xfb])
const TRANSCRIPTIONS: readonly TranscriptionInput[] = [
  { audio, diarize: false, timestamps: 'none', tagAudioEvents: false, needsWords: false },
  { audio, language: 'en-US', diarize: false, timestamps: 'word', tagAudioEvents: false, needsWords: true },
  {
    audio,
    language: 'eng',
    diarize: true,
    numSpeakers: 2,
    timestamps: 'character',
    tagAudioEvents: true,
    needsWords: true,
  },
]
type Body = Readonly<Record<string, unknown>>
/** Returns what a deployment sends, without the files of forms; nothing for what it does not send. */
async function bodiesOf(
  entry: Pick<DeploymentEntry, 'adapter' | 'upstream_model' | 'options'>,
  call: (deployment: Deployment) => readonly (Promise<unknown> | undefined)[],
): Promise<readonly Body[]> {
  const sent: HttpRequest[] = []
  const deployments = [{ ...entry, name: 'a', base_url: 'http://vendor', api_key_env: 'KEY', serves: ['model'] }]
  const [deployment] = createDeployments(parseDeploymentsFile(JSON.stringify({ deployments })), {
    environment: { KEY: 'a-key' },
    http: (request) => {
      sent.push(request)
      return Promise.resolve({ outcome: 'not_sent', reason: 'recorded' })
    },
  })
  if (deployment === undefined) throw new Error('there is no deployment')
  for (const each of call(deployment)) await each
  return await Promise.all(sent.map(readBody))
}
async function readBody({ body, url }: HttpRequest): Promise<Body> {
  if (typeof body === 'string') return JSON.parse(body) as Body
  if (body === undefined) throw new Error(`${url} has no body`)
  const response = new Response(body.open(), { headers: { 'content-type': body.contentType } })
  if (body.contentType.startsWith('application/json')) return (await response.json()) as Body
  const fields = [...(await response.formData())]
  return Object.fromEntries(
    fields.flatMap(([name, value]) => (typeof value === 'string' ? [formField(name, value)] : [])),
  )
}
/** SDKs take lists, numbers and booleans where a form has text. */
function formField(name: string, value: string): readonly [string, unknown] {
  if (name.endsWith('[]')) return [name.slice(0, -2), [value]]
  return [name, /^(true|false|\d+)$/.test(value) ? JSON.parse(value) : value]
}
const options = { timeoutMs: 1000 }
const texts = (deployment: Deployment) => TEXTS.map((request) => deployment.text?.generateText(request, options))
const images = (deployment: Deployment) => [deployment.image?.generateImage(IMAGE, options)]
const speech = (deployment: Deployment) => [deployment.speech?.synthesize(SPEECH, options)]
const transcriptions = (deployment: Deployment) =>
  TRANSCRIPTIONS.map((input) => deployment.transcription?.transcribe(input, options))
/** Google's SDK has the options of `generationConfig` next to tools, and enumerations where the wire has their names. */
function geminiParameters(model: string, { contents, generationConfig, ...config }: Body): Body {
  return { model, contents, config: { ...(generationConfig as Body), ...config } }
}
function camelCase(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const entries = Object.entries(value).map(([name, field]) => [
    name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()),
    camelCase(field),
  ])
  return Object.fromEntries(entries) as unknown
}
const literal = (bodies: readonly unknown[], type: string) =>
  `${JSON.stringify(bodies, null, 2)
    .replaceAll(/"mode": "(\w+)"/g, '"mode": FunctionCallingConfigMode.$1')
    .replaceAll(
      /"thinkingLevel": "(\w+)"/g,
      (_, level: string) => `"thinkingLevel": ThinkingLevel.${level.toUpperCase()}`,
    )} satisfies ${type}[]\n`
const KEY = 'sk-CANARY-key'
const http = createHttp({ fetch })
type Adapter = 'gemini' | 'anthropic' | 'elevenlabs' | 'openai-compatible'
interface Changes {
  readonly baseUrl?: string
  readonly key?: string
  readonly voices?: Readonly<Record<string, string>>
}

describe('request bodies', () => {
  test('every body that the adapters send has the types of the vendors’ own SDKs', async () => {
    const gemini = async (model: string, deploymentOptions: DeploymentEntry['options']) => {
      const bodies = await bodiesOf({ adapter: 'gemini', upstream_model: model, options: deploymentOptions }, texts)
      return bodies.map((body) => geminiParameters(model, body))
    }
    const imageModel = 'gemini-3.1-flash-lite-image'
    const geminiImages = await bodiesOf({ adapter: 'gemini', upstream_model: imageModel }, images)
    const openAi = { adapter: 'openai-compatible', upstream_model: 'gpt-6-luna' } as const
    const drawing = { image_quality: 'medium', send_image_response_format: false }
    const eleven = { adapter: 'elevenlabs', upstream_model: 'eleven_flash_v2_5' } as const
    const parts = [
      `import type { MessageCreateParams } from '@anthropic-ai/sdk/resources/messages'
import type { ElevenLabs } from '@elevenlabs/elevenlabs-js'
import { FunctionCallingConfigMode, type GenerateContentParameters, ThinkingLevel } from '@google/genai'
import type { SpeechCreateParams } from 'openai/resources/audio/speech'
import type { TranscriptionCreateParams } from 'openai/resources/audio/transcriptions'
import type { ChatCompletionCreateParams } from 'openai/resources/chat/completions'
import type { ImageGenerateParams } from 'openai/resources/images'

`,
      'export const anthropicMessages = ',
      literal(
        [
          ...(await bodiesOf({ adapter: 'anthropic', upstream_model: 'claude-sonnet-5-5' }, texts)),
          ...(await bodiesOf(
            {
              adapter: 'anthropic',
              upstream_model: 'claude-haiku-4-5',
              options: { thinking: 'adaptive', effort: 'high' },
            },
            texts,
          )),
        ],
        'MessageCreateParams',
      ),
      'export const geminiContents = ',
      literal(
        [
          ...(await gemini('gemini-3.6-flash', { thinking_level: 'high' })),
          ...(await gemini('gemini-2.5-flash-lite', { thinking_budget_tokens: 1024 })),
          ...geminiImages.map((body) => geminiParameters(imageModel, body)),
        ],
        'GenerateContentParameters',
      ),
      'export const openAiCompletions = ',
      literal(
        [
          ...(await bodiesOf({ ...openAi, options: { reasoning_effort: 'none', system_role: 'developer' } }, texts)),
          ...(await bodiesOf({ ...openAi, options: { reasoning_effort: 'high', output_limit: 'both' } }, texts)),
        ],
        'ChatCompletionCreateParams',
      ),
      'export const openAiImages = ',
      literal(
        await bodiesOf({ ...openAi, upstream_model: 'gpt-image-2.6-flare', options: drawing }, images),
        'ImageGenerateParams',
      ),
      'export const openAiSpeech = ',
      literal(await bodiesOf({ ...openAi, upstream_model: 'gpt-4o-mini-tts' }, speech), 'SpeechCreateParams'),
      'export const openAiTranscriptions = ',
      literal(
        await bodiesOf({ ...openAi, upstream_model: 'whisper-1' }, transcriptions),
        "Omit<TranscriptionCreateParams, 'file'>",
      ),
      'export const elevenLabsSpeech = ',
      literal((await bodiesOf(eleven, speech)).map(camelCase), 'ElevenLabs.BodyTextToSpeechFull'),
      'export const elevenLabsTranscriptions = ',
      literal(
        (await bodiesOf({ ...eleven, upstream_model: 'scribe_v2' }, transcriptions)).map(camelCase),
        'ElevenLabs.BodySpeechToTextV1SpeechToTextPost',
      ),
    ]
    await expect(HEADER + parts.join('')).toMatchFileSnapshot('request-bodies.snap.ts')
  })
})

describe('model look up', () => {
  let upstream: Upstream
  /** Answers every request with `answer`, and remembers its path. */
  let server: Server
  let answer: { status: number; body: string }
  let asked: string[]
  beforeAll(async () => {
    upstream = await startUpstream({ apiKey: KEY })
    server = createServer((request, response) => {
      asked.push(request.url ?? '')
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.body)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })

  afterAll(async () => {
    await upstream.stop()
    server.closeAllConnections()
    server.close()
  })

  async function lookUp(adapter: Adapter, model: string, changes: Changes = {}): Promise<ModelStatus> {
    const { baseUrl = upstream.url, key = KEY, voices } = changes
    const entry = {
      name: 'a',
      adapter,
      base_url: adapter === 'openai-compatible' ? `${baseUrl}/v1` : baseUrl,
      api_key_env: 'KEY',
      upstream_model: model,
      serves: ['model'],
      ...(voices === undefined ? {} : { voices }),
    }
    const file = parseDeploymentsFile(JSON.stringify({ deployments: [entry] }))
    const [deployment] = createDeployments(file, { environment: { KEY: key }, http })
    const options = { timeoutMs: PATIENCE_MS }
    return (
      (await deployment?.lookUpModel?.(Object.values(voices ?? {}), options)) ?? { outcome: 'unknown', reason: 'none' }
    )
  }
  function lookUpAt(adapter: Adapter, status: number, body: unknown): Promise<ModelStatus> {
    answer = { status, body: typeof body === 'string' ? body : JSON.stringify(body) }
    asked = []
    return lookUp(adapter, 'eleven_a', { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
  }
  describe('a vendor’s model', () => {
    test.each<[Adapter, string]>([
      ['gemini', 'gemini-3.6-flash'],
      ['anthropic', 'claude-sonnet-5-5'],
      ['openai-compatible', 'gpt-6-luna'],
      ['elevenlabs', 'eleven_flash_v2_5'],
    ])('%s: %s is listed, without a date of retirement', async (adapter, model) => {
      expect(await lookUp(adapter, model)).toEqual({ outcome: 'listed' })
      expect(upstream.calls).toEqual([])
    })

    test.each<[Adapter, string]>([
      ['gemini', 'unknown-model'],
      ['anthropic', 'unknown-model'],
      ['anthropic', 'claude-opus-4-20250514'],
      ['openai-compatible', 'unknown-model'],
      ['elevenlabs', 'eleven_monolingual_v1'],
    ])('%s: %s is missing', async (adapter, model) => {
      expect(await lookUp(adapter, model)).toEqual({ outcome: 'missing' })
    })

    test.each<[Adapter, string, string]>([
      ['anthropic', 'claude-sonnet-4-5', '2026-11-30'],
      ['openai-compatible', 'gpt-4.1-mini', '2027-01-14'],
    ])('%s: %s is listed with the day of its retirement', async (adapter, model, day) => {
      expect(await lookUp(adapter, model)).toEqual({ outcome: 'listed', retiresAt: new Date(day) })
    })

    test('voices that the ElevenLabs account does not have are named', async () => {
      const voices = { darian: 'id-1', talia: 'unknown-1', elara: 'unknown-1', baxter: 'id-2' }
      expect(await lookUp('elevenlabs', 'eleven_flash_v2_5', { voices })).toEqual({
        outcome: 'listed',
        missingVoices: ['unknown-1'],
      })
    })

    test('a transcription model that ElevenLabs does not list is unknown', async () => {
      expect(await lookUp('elevenlabs', 'scribe_v2')).toMatchObject({ outcome: 'unknown', isUnlisted: true })
    })

    test('every model of the sandbox is listed, except those of transcription', async () => {
      const models = [
        { id: 'textmodel-2.5-pro', category: 'text_generation' },
        { id: 'textmodel-3.1-flash-lite-image', category: 'image_generation' },
        { id: 'speechvendor/flash-v2.5', category: 'text_to_speech' },
      ] as const
      const options = { upstreamUrl: upstream.url, apiKeyEnv: 'KEY', models, voices: ['darian'] }
      const file = parseDeploymentsFile(JSON.stringify(sandboxDeployments(options)))
      const deployments = createDeployments(file, { environment: { KEY }, http })
      for (const { lookUpModel, voices = {} } of deployments) {
        const status = await lookUpModel?.(Object.values(voices), { timeoutMs: PATIENCE_MS })
        expect(status).toMatchObject({ outcome: 'listed' })
      }
    })
  })

  describe('an answer that says nothing about the model', () => {
    const ADAPTERS = ['gemini', 'anthropic', 'elevenlabs', 'openai-compatible'] as const
    const cases = ADAPTERS.flatMap((adapter) =>
      (
        [
          [401, { error: { type: 'CANARY' } }],
          [404, '<html>CANARY: no such page</html>'],
          [404, {}],
          [500, 'CANARY'],
          [200, 'CANARY'],
          [200, { data: 'CANARY' }],
        ] as const
      ).map(([status, body]) => [adapter, status, body] as const),
    )
    test.each(cases)('%s: %i %j leaves it unknown, without quoting it', async (adapter, status, body) => {
      const refusal = status === 401 ? { refusesKey: true } : {}
      expect(await lookUpAt(adapter, status, body)).toEqual({
        outcome: 'unknown',
        reason: `HTTP ${status}`,
        ...refusal,
      })
      expect(asked).toHaveLength(1)
    })

    test.each(ADAPTERS)('%s: a vendor that cannot be reached leaves it unknown', async (adapter) => {
      const status = await lookUp(adapter, 'a-model', { baseUrl: 'http://127.0.0.1:1' })
      expect(status).toMatchObject({ outcome: 'unknown' })
    })

    test.each(ADAPTERS)('%s: a wrong key leaves it unknown', async (adapter) => {
      expect(await lookUp(adapter, 'a-model', { key: 'sk-wrong' })).toMatchObject({ outcome: 'unknown' })
    })
  })

  test('a deployment with look_up_model: false is not looked up', () => {
    const entry = { name: 'a', adapter: 'openai-compatible', base_url: 'http://127.0.0.1:1', upstream_model: 'm' }
    const deployments = [{ ...entry, serves: ['model'], look_up_model: false }]
    const file = parseDeploymentsFile(JSON.stringify({ deployments }))
    expect(createDeployments(file, { environment: {}, http })[0]).not.toHaveProperty('lookUpModel')
  })
})
