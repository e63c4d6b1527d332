import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import {
  type DeploymentEntry,
  parseDeployments,
  parseDeploymentsFile,
  servedModels,
} from '#shared/catalog/deployments-file.ts'
import { type ProviderKeys, parseProviderKeys, providerKeysOf } from '#shared/catalog/provider-keys.ts'
import { sandboxDeployments } from '../../../infra/sandbox/deployments.ts'
import { createDeployments, tryCreateDeployment } from '../../../workers/providers/create-deployments.ts'
import { upstreamVoice } from '../../../workers/providers/deployment.ts'
import type { SendHttp } from '../../../workers/providers/http.ts'
import { knownRetirement, RETIREMENTS_READ_ON } from '../../../workers/providers/known-retirements.ts'

const entry = {
  name: 'vllm-a',
  adapter: 'openai-compatible',
  base_url: 'http://10.0.0.11:8000/v1',
  upstream_model: 'Qwen/Qwen3-8B',
  serves: ['model-a'],
}

const parse = (...entries: object[]) => parseDeploymentsFile(JSON.stringify({ deployments: entries }))

const http: SendHttp = () => Promise.reject(new Error('not called'))
const create = (entries: object[], environment: Record<string, string> = {}) =>
  createDeployments(parse(...entries), { environment, providerKeys: providerKeysOf(parse(...entries)), http })

const createWithin270 = (timeout_seconds: number) =>
  createDeployments(parse({ ...entry, timeout_seconds }), {
    environment: {},
    providerKeys: providerKeysOf(parse(entry)),
    http,
    longestTimeoutSeconds: 270,
  })

const isUsable = (base_url: string, providerKeys: ProviderKeys = {}) =>
  parse({ ...entry, base_url }).deployments.every(
    (one) => 'deployment' in tryCreateDeployment(one, { environment: {}, providerKeys, http }),
  )
describe('the file', () => {
  test('omitted fields get their defaults', () => {
    expect(parse(entry).deployments).toEqual([{ ...entry, priority: 0, weight: 1 }])
  })

  test('the served models are readable without any key', () => {
    const file = parse(
      { ...entry, api_key_env: 'NOT_SET', serves: ['model-a', 'model-b'] },
      { ...entry, name: 'b', serves: ['model-b', 'model-c'] },
    )
    expect([...servedModels(file).keys()]).toEqual(['model-a', 'model-b', 'model-c'])
    expect(servedModels({ deployments: [] }).size).toBe(0)
  })

  test('the served voices of a model are those of all its deployments, or all if one takes the public aliases', () => {
    const file = parse(
      { ...entry, serves: ['model-a', 'model-b'], voices: { jade: 'v1' } },
      { ...entry, name: 'b', serves: ['model-b'], voices: { jade: 'v2', bella: 'v3' } },
      { ...entry, name: 'c', serves: ['model-c'], voices: { bella: 'v4' } },
      { ...entry, name: 'd', serves: ['model-c'] },
    )
    expect([...servedModels(file)]).toEqual([
      ['model-a', new Set(['jade'])],
      ['model-b', new Set(['jade', 'bella'])],
      ['model-c', 'all'],
    ])
  })

  test.each<[string, Partial<Record<keyof DeploymentEntry | 'api_key', unknown>>, RegExp]>([
    ['an unknown field', { api_key: 'sk-CANARY' }, /api_key/],
    ['a key in place of its variable', { api_key_env: 'sk-CANARY' }, /name of an environment variable/],
    ['an unknown adapter', { adapter: 'CANARY' }, /adapter/],
    ['a base URL with another scheme', { base_url: 'ftp://CANARY' }, /http or https/],
    ['no model', { serves: [] }, /serves/],
    ['a model twice', { serves: ['a', 'a'] }, /listed twice/],
    ['a name with spaces', { name: 'vllm CANARY' }, /name/],
    ['a negative priority', { priority: -1 }, /priority/],
    ['no weight', { weight: 0 }, /weight/],
    ['half a call', { max_concurrency: 0.5 }, /max_concurrency/],
    ['no calls', { requests_per_minute: 0 }, /requests_per_minute/],
    ['no time', { timeout_seconds: 0 }, /timeout_seconds/],
    ['a voice without id', { voices: { darian: '' } }, /voices/],
  ])('rejects %s, naming the field without quoting its value', (_name, change, message) => {
    expect(() => parse({ ...entry, ...change })).toThrow(message)
    expect(() => parse({ ...entry, ...change })).toThrow(/^(?![^]*CANARY)/)
  })

  test('rejects a name that is used twice', () => {
    expect(() => parse(entry, entry)).toThrow(/name is used twice/)
  })

  test('does not quote a file that is not valid JSON', () => {
    expect(() => parseDeploymentsFile('{"deployments": CANARY')).toThrow(/^The deployments file is not valid JSON$/)
  })
})

describe('deployments', () => {
  const keyed = { ...entry, name: 'eleven', adapter: 'elevenlabs', api_key_env: 'ELEVEN_KEY' }

  test('a deployment has the limits, voices and ports of its entry', () => {
    const [deployment] = create(
      [{ ...keyed, max_concurrency: 3, requests_per_minute: 60, timeout_seconds: 1.5, voices: { darian: 'id-1' } }],
      { ELEVEN_KEY: 'sk-1' },
    )
    expect(deployment).toEqual({
      name: 'eleven',
      vendor: new URL(keyed.base_url).host,
      upstreamModel: keyed.upstream_model,
      serves: ['model-a'],
      priority: 0,
      weight: 1,
      maximumConcurrency: 3,
      requestsPerMinute: 60,
      timeoutMs: 1500,
      voices: { darian: 'id-1' },
      speech: expect.anything(),
      transcription: expect.anything(),
      lookUpModel: expect.anything(),
    })
  })

  test('a time limit that exceeds that of all calls is an error that names the setting, since it would have no effect', () => {
    expect(() => createWithin270(270.5)).toThrow(/timeout_seconds is 270.5, but PROVIDER_TIMEOUT_SECONDS .* 270/)
    expect(createWithin270(270)).toMatchObject([{ timeoutMs: 270_000 }])
  })

  test.each([
    [
      'another vendor’s address',
      { base_url: 'https://evil.test' },
      /ELEVEN_KEY may not be sent to https:\/\/evil\.test/,
    ],
    ['its host over http', { base_url: 'http://api.elevenlabs.test' }, /may not be sent to http:/],
    ['another port', { base_url: 'https://api.elevenlabs.test:8443' }, /may not be sent to .*:8443/],
    ['a listener on this machine', { base_url: 'http://127.0.0.1:9' }, /may not be sent to http:\/\/127/],
    ['the same address as another key', { api_key_env: 'OTHER_KEY' }, /OTHER_KEY may not be sent to/],
    [
      'a setting of farebox',
      { api_key_env: 'SETTLEMENT_PRIVATE_KEYS' },
      /SETTLEMENT_PRIVATE_KEYS is a setting of farebox/,
    ],
  ])('a key that a publication sends to %s is not sent', (_, changes, message) => {
    const [published] = parseDeployments({
      deployments: [{ ...keyed, base_url: 'https://api.elevenlabs.test/v1', ...changes }],
    }).deployments
    if (!published) throw new Error('no entry')
    const environment = { ELEVEN_KEY: 'sk-CANARY', OTHER_KEY: 'sk-CANARY', SETTLEMENT_PRIVATE_KEYS: '0xCANARY' }
    const providerKeys = { ELEVEN_KEY: ['https://api.elevenlabs.test'], OTHER_KEY: ['https://other.test'] }
    const created = tryCreateDeployment(published, { environment, providerKeys, http })
    expect(created).toEqual({ problem: expect.stringMatching(message) })
    expect(JSON.stringify(created)).not.toContain('CANARY')
  })

  test('without a key a deployment is called over TLS, on this machine, or over http where the worker’s settings say so', () => {
    expect(isUsable('https://vllm.test/v1')).toBe(true)
    for (const host of ['localhost', '127.0.0.2', '[::1]']) expect(isUsable(`http://${host}:8000/v1`)).toBe(true)
    for (const host of ['10.0.0.11:8000', '169.254.169.254', 'localhost.evil.test', '127.0.0.1.evil.test'])
      expect(isUsable(`http://${host}/v1`)).toBe(false)
    expect(isUsable('http://10.0.0.11:8000/v1', parseProviderKeys('none=http://10.0.0.11:8000'))).toBe(true)
  })

  test('a deployment knows when its model retires', () => {
    const base_url = 'https://generativelanguage.googleapis.com'
    const model = { ...keyed, adapter: 'gemini', base_url, upstream_model: 'gemini-2.5-pro' }
    const [deployment] = create([model], { ELEVEN_KEY: 'sk-1' })
    expect(deployment?.knownRetirement).toEqual(new Date('2026-12-01'))
  })

  test.each([
    ['gemini', ['image', 'text']],
    ['anthropic', ['text']],
    ['elevenlabs', ['speech', 'transcription']],
    ['openai-compatible', ['image', 'speech', 'text', 'transcription']],
  ])('%s has the ports %j', (adapter, ports) => {
    const [deployment] = create([{ ...keyed, adapter, upstream_model: 'a-model' }], { ELEVEN_KEY: 'sk-1' })
    expect(
      Object.keys(deployment ?? {})
        .filter((key) => ['image', 'speech', 'text', 'transcription'].includes(key))
        .sort(),
    ).toEqual(ports)
  })

  test('one error reports every problem, including a missing key with deployment and variable', () => {
    const entries = [
      keyed,
      { ...entry, name: 'keyless-gemini', adapter: 'gemini' },
      { ...entry, name: 'odd', options: { output_limit: 'CANARY' } },
      { ...keyed, name: 'unheaderable', api_key_env: 'BROKEN_KEY' },
      entry,
    ]
    const attempt = () => create(entries, { ELEVEN_KEY: '', BROKEN_KEY: 'CANARY\nkey' })
    expect(attempt).toThrow(/deployment eleven: the environment variable ELEVEN_KEY is not set/)
    expect(attempt).toThrow(/deployment keyless-gemini: the adapter gemini needs api_key_env/)
    expect(attempt).toThrow(/deployment odd: options: [^]*output_limit/)
    expect(attempt).toThrow(/deployment unheaderable: The ElevenLabs key/)
    expect(attempt).toThrow(/^(?![^]*(CANARY|vllm-a))/)
  })

  test('the samples of the example files are refused as key and as voice, by name', () => {
    expect(() => create([keyed], { ELEVEN_KEY: 'replace-with-your-key' })).toThrow(
      /deployment eleven: the environment variable ELEVEN_KEY still has the sample/,
    )
    const voices = { darian: 'id-1', talia: 'replace-with-a-voice-id-of-your-account' }
    expect(() => parse({ ...keyed, voices })).toThrow(/sample of the example file[^]*talia/)
    expect(() => parse({ ...keyed, voices })).toThrow(/^(?![^]*darian)/)
  })

  test.each([
    [
      'gemini',
      { thinking_level: 'medium', lowest_thinking_level: 'low', maximum_output_tokens: 8192, sampling: 'none' },
    ],
    ['gemini', { thinking_budget_tokens: 0 }],
    ['anthropic', { effort: 'max', thinking: 'adaptive', sampling: 'full', maximum_output_tokens: 64_000 }],
    [
      'openai-compatible',
      {
        reasoning_effort: 'none',
        lowest_reasoning_effort: 'none',
        reasoning_with_tools: false,
        sampling: 'when_not_reasoning',
        maximum_stop_sequences: 0,
        maximum_output_tokens: 32_768,
        chat_template_kwargs: { enable_thinking: false },
      },
    ],
  ])('%s has the options %j', (adapter, options) => {
    expect(create([{ ...keyed, adapter, upstream_model: 'a-model', options }], { ELEVEN_KEY: 'sk-1' })).toHaveLength(1)
  })

  test.each<[string, object, RegExp]>([
    ['gemini', { thinking_budget_tokens: 1, thinking_level: 'low' }, /exclude each other/],
    ['gemini', { thinking_level: 'low', lowest_thinking_level: 'high' }, /lowest_thinking_level is above/],
    ['gemini', { thinking_level: 'max' }, /thinking_level/],
    ['anthropic', { effort: 'minimal' }, /effort/],
    ['anthropic', { maximum_output_tokens: 0 }, /maximum_output_tokens/],
    ['openai-compatible', { reasoning_effort: 'low', lowest_reasoning_effort: 'high' }, /lowest_reasoning_effort is/],
    ['openai-compatible', { sampling: 'CANARY' }, /sampling/],
  ])('%s rejects the options %j', (adapter, options, message) => {
    const attempt = () => create([{ ...keyed, adapter, upstream_model: 'a-model', options }], { ELEVEN_KEY: 'sk-1' })
    expect(attempt).toThrow(message)
    expect(attempt).toThrow(/^(?![^]*CANARY)/)
  })

  test.each(['claude-opus-5-5', 'claude-fable-5', 'claude-fable-5-1', 'claude-mythos-5-1', 'claude-mythos-preview'])(
    'thinking of %s cannot be disabled, which would fail every call: the deployment is refused and told what to set',
    (upstream_model) => {
      const disabled = { ...keyed, adapter: 'anthropic', upstream_model, options: { thinking: 'disabled' } }
      expect(() => create([disabled], { ELEVEN_KEY: 'sk-1' })).toThrow(
        `deployment eleven: options: ${upstream_model} always thinks and refuses "thinking": "disabled"; set "effort": "low" instead`,
      )
    },
  )

  test.each(['claude-sonnet-5-5', 'claude-haiku-5-5', 'claude-opus-5', 'claude-opus-4-8', 'a-model'])(
    'thinking of %s can be disabled',
    (upstream_model) => {
      const disabled = { ...keyed, adapter: 'anthropic', upstream_model, options: { thinking: 'disabled' } }
      expect(create([disabled], { ELEVEN_KEY: 'sk-1' })).toHaveLength(1)
    },
  )

  test('rejects options of another adapter', () => {
    expect(() => create([{ ...keyed, options: { send_top_k: true } }], { ELEVEN_KEY: 'sk-1' })).toThrow(/send_top_k/)
  })

  test('maps a public voice to the upstream’s; without a table the alias is used as it is', () => {
    expect(upstreamVoice({ voices: { darian: 'id-1' } }, 'darian')).toBe('id-1')
    expect(upstreamVoice({ voices: { darian: 'id-1' } }, 'talia')).toBeUndefined()
    expect(upstreamVoice({ voices: { darian: 'id-1' } }, 'constructor')).toBeUndefined()
    expect(upstreamVoice({}, 'talia')).toBe('talia')
  })
})

const example = (name: string) =>
  readFileSync(new URL(`../../../infra/${name}`, import.meta.url), 'utf8').replaceAll(/replace-with-[\w-]+/g, 'voice')

describe('the included files', () => {
  test('the full example is usable when its variables are set, and contains the short one', () => {
    const file = parseDeploymentsFile(example('deployments.full.example.json'))
    const variables = file.deployments.flatMap(({ api_key_env }) => api_key_env ?? [])
    const environment = Object.fromEntries(variables.map((name) => [name, 'sk-1']))
    expect(createDeployments(file, { environment, providerKeys: providerKeysOf(file), http })).toHaveLength(
      file.deployments.length,
    )
    const short = parseDeploymentsFile(example('deployments.example.json')).deployments
    expect(file.deployments.slice(0, short.length)).toEqual(short)
  })

  test.each(['deployments.example.json', 'deployments.full.example.json'])(
    '%s names no model that retires within four months of the list of retirements',
    (name) => {
      const { deployments } = parseDeploymentsFile(example(name))
      const lastDay = new Date(RETIREMENTS_READ_ON)
      lastDay.setUTCMonth(lastDay.getUTCMonth() + 4)
      const retiring = deployments.filter(({ base_url, upstream_model }) => {
        const retiresOn = knownRetirement(base_url, upstream_model)
        return retiresOn !== undefined && retiresOn < lastDay
      })
      expect(retiring.map(({ upstream_model }) => upstream_model)).toEqual([])
    },
  )

  const [GOOGLE, OPENAI, ANTHROPIC] = [
    'https://generativelanguage.googleapis.com',
    'https://api.openai.com/v1',
    'https://api.anthropic.com',
  ]
  test.each([
    [GOOGLE, 'gemini-2.5-pro', '2026-12-01'],
    [`${GOOGLE}/v1beta/openai`, 'gemini-2.5-flash-image', '2026-10-02'],
    [OPENAI, 'gpt-image-1', '2026-10-23'],
    ['https://eu.api.openai.com/v1', 'gpt-4.1-mini', '2027-01-14'],
    [OPENAI, 'gpt-5-mini-2025-08-07', '2026-12-11'],
    [OPENAI, 'gpt-4o-2024-11-20', '2027-01-14'],
    [OPENAI, 'gpt-4o-2024-05-13', '2026-10-23'],
    [ANTHROPIC, 'claude-opus-4-5-20251101', '2027-01-22'],
    ['https://api.us.elevenlabs.io', 'scribe_v1', '2026-07-09'],
  ])('the list of retirements knows that %s retires %s', (baseUrl, model, day) => {
    expect(knownRetirement(baseUrl, model)).toEqual(new Date(day))
  })

  // LocalAI's and speaches' own names of what they serve, clouds with days of their own, and other models of a vendor.
  test.each([
    ['http://127.0.0.1:8080/v1', 'whisper-1'],
    ['http://10.0.0.13:8080/v1', 'gpt-4'],
    ['https://farebox.openai.azure.com/openai/v1', 'gpt-4.1'],
    ['https://europe-west1-aiplatform.googleapis.com', 'gemini-2.5-pro'],
    ['https://notopenai.com/v1', 'gpt-4'],
    [OPENAI, 'gpt-5.4-mini-2026-03-17'],
    [GOOGLE, 'gemini-2.5-flash-lite'],
  ])('nobody announced that %s retires %s', (baseUrl, model) => {
    expect(knownRetirement(baseUrl, model)).toBeUndefined()
  })

  test('the sandbox file serves every model, and each except the image model from two vendors', () => {
    const models = [
      { id: 'textmodel-2.5-flash', category: 'text_generation' },
      { id: 'textmodel-2.5-pro', category: 'text_generation' },
      { id: 'textmodel-3.1-flash-lite-image', category: 'image_generation' },
      { id: 'speechvendor/flash-v2.5', category: 'text_to_speech' },
      { id: 'speechvendor/scribe-v2', category: 'speech_to_text' },
    ] as const
    const written = sandboxDeployments({
      upstreamUrl: 'http://127.0.0.1:1',
      apiKeyEnv: 'UPSTREAM_API_KEY',
      models,
      voices: ['darian'],
    })
    const file = parseDeploymentsFile(JSON.stringify(written))
    expect([...servedModels(file).keys()].toSorted()).toEqual(models.map(({ id }) => id).toSorted())
    expect(servedModels(file).get('speechvendor/flash-v2.5')).toEqual(new Set(['darian']))
    const adaptersOf = (id: string) =>
      file.deployments
        .filter(({ serves }) => serves.includes(id))
        .sort((left, right) => left.priority - right.priority)
        .map(({ adapter }) => adapter)
    expect(models.map(({ id }) => adaptersOf(id))).toEqual([
      ['gemini', 'openai-compatible'],
      ['gemini', 'anthropic', 'openai-compatible'],
      ['gemini'],
      ['elevenlabs', 'openai-compatible'],
      ['elevenlabs', 'openai-compatible'],
    ])
    expect(
      createDeployments(file, { environment: { UPSTREAM_API_KEY: 'k' }, providerKeys: providerKeysOf(file), http }),
    ).toHaveLength(file.deployments.length)
  })
})
