import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseDeploymentsFile } from '#shared/catalog/deployments-file.ts'
import { providerKeysOf } from '#shared/catalog/provider-keys.ts'
import { sandboxDeployments } from '../../infra/sandbox/deployments.ts'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'
import { createDeployments } from '../../workers/providers/create-deployments.ts'
import { createHttp } from '../../workers/providers/http.ts'
import type { ModelStatus } from '../../workers/providers/model-look-up.ts'
import { PATIENCE_MS } from '../support/patience.ts'

const KEY = 'sk-CANARY-key'
const http = createHttp({ fetch })

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

type Adapter = 'gemini' | 'anthropic' | 'elevenlabs' | 'openai-compatible'

interface Changes {
  readonly baseUrl?: string
  readonly key?: string
  readonly voices?: Readonly<Record<string, string>>
}

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
  const [deployment] = createDeployments(file, { environment: { KEY: key }, providerKeys: providerKeysOf(file), http })
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
    expect(await lookUp('elevenlabs', 'scribe_v2')).toMatchObject({
      outcome: 'unknown',
      reason: 'the vendor lists models of speech synthesis only',
    })
  })

  test('every model of the sandbox is listed, except those of transcription', async () => {
    const models = [
      { id: 'textmodel-2.5-pro', category: 'text_generation' },
      { id: 'textmodel-3.1-flash-lite-image', category: 'image_generation' },
      { id: 'speechvendor/flash-v2.5', category: 'text_to_speech' },
    ] as const
    const options = { upstreamUrl: upstream.url, apiKeyEnv: 'KEY', models, voices: ['darian'] }
    const file = parseDeploymentsFile(JSON.stringify(sandboxDeployments(options)))
    const deployments = createDeployments(file, { environment: { KEY }, providerKeys: providerKeysOf(file), http })
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
    expect(await lookUpAt(adapter, status, body)).toEqual({ outcome: 'unknown', reason: `HTTP ${status}`, ...refusal })
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
  expect(createDeployments(file, { environment: {}, providerKeys: providerKeysOf(file), http })[0]).not.toHaveProperty(
    'lookUpModel',
  )
})
