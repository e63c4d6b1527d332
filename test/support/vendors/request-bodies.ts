import type { DeploymentEntry } from '#shared/catalog/deployments-file.ts'
import { parseDeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { providerKeysOf } from '#shared/catalog/provider-keys.ts'
import type { SpokenRequest } from '#shared/operations/speech.ts'
import type { TextRequest } from '#shared/operations/text/text-request.ts'
import { createDeployments } from '../../../workers/providers/create-deployments.ts'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import type { HttpRequest } from '../../../workers/providers/http.ts'
import type { ImageInput, TranscriptionInput } from '../../../workers/providers/provider.ts'
import { written } from './written.ts'

const HEADER = `// Generated from what the adapters send: npm run generate. The compiler checks each body against the types of the
// vendor's own SDK, which excess properties and unknown values violate.
`

/** Conversations that together use every field and part of a text request. */
const schema = written({ type: 'object', properties: { stops: { type: 'integer' } }, required: ['stops'] })
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
    system: 'Be brief. It is Monday.',
    system_breakpoints: ['Be brief.'.length],
    messages: [{ role: 'user', parts: [{ type: 'text', text: 'Hello', cache_breakpoint: true }] }],
    max_output_tokens: 64,
    tools: [{ ...tool, cache_breakpoint: true }],
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
  {
    messages: [user('Hello')],
    max_output_tokens: 512,
    tools: [{ ...tool, strict: true }],
    parallel_tool_calls: false,
    reasoning_effort: 'high',
  },
  {
    messages: [user('Hello')],
    max_output_tokens: 512,
    response_format: { type: 'json_schema', name: 'answer', description: 'The stops.', schema, strict: true },
    reasoning_effort: 'none',
  },
  { messages: [user('Hello')], max_output_tokens: 64, verbosity: 'low' },
  ...(['auto', 'none', 'required'] as const).map((tool_choice) => ({
    messages: [user('Hello')],
    max_output_tokens: 2048,
    tools: [tool],
    tool_choice,
  })),
]
const IMAGE: ImageInput = { prompt: 'A tram', size: '1024x1024' }
const SPEECH: readonly SpokenRequest[] = [{ text: 'Mind the step.', voice: 'a-voice', speed: 1.1 }]
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
  const file = parseDeploymentsFile(JSON.stringify({ deployments }))
  const [deployment] = createDeployments(file, {
    environment: { KEY: 'a-key' },
    providerKeys: providerKeysOf(file),
    http: (request) => {
      sent.push(request)
      return Promise.resolve({ outcome: 'not_sent', reason: 'recorded' })
    },
  })
  if (deployment === undefined) throw new Error('there is no deployment')
  for (const each of call(deployment)) await each
  return await Promise.all(sent.map(readBody))
}

/** Returns the body of a request as JSON, a form's fields without its files. */
export async function readBody({ body, url }: HttpRequest): Promise<Body> {
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
const speech = (deployment: Deployment) => SPEECH.map((input) => deployment.speech?.synthesize(input, options))
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

/** Returns a module with every body that the adapters send, each with the type of the vendor's own SDK. */
export async function renderRequestBodies(): Promise<string> {
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
        ...(await bodiesOf({ adapter: 'anthropic', upstream_model: 'claude-sonnet-5' }, texts)),
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
        ...(await bodiesOf(
          { ...openAi, options: { reasoning_effort: 'none', system_role: 'developer', send_verbosity: true } },
          texts,
        )),
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
  return HEADER + parts.join('')
}
