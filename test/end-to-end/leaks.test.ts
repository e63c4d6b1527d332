import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { DeploymentsFileInput } from '#shared/catalog/deployments-file.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { type AnswerGate, startAnswerGate } from '../support/http/answer-gate.ts'
import { startTestSandbox, type TestSandbox } from '../support/processes/test-sandbox.ts'

/** Marks everything that belongs to our vendors; nothing a caller receives may hold it. */
const VENDOR = 'vendorcanary'
/** Marks everything a caller sends or the model says; nothing we keep for operators may hold it. */
const CALLER = 'callercanary'

/** The three wires of text, each alone behind one model. */
const [ON_GEMINI, ON_ANTHROPIC, ON_OPEN] = ['textmodel-2.5-flash', 'textmodel-2.5-pro', 'textmodel-3.5-flash'] as const
const adapterOf: Readonly<Record<string, string>> = {
  [ON_GEMINI]: 'gemini',
  [ON_ANTHROPIC]: 'anthropic',
  [ON_OPEN]: 'openai-compatible',
}

/** Every name of the file is a canary, as far as the simulated vendors accept it. */
function canaryDeployments({ deployments }: DeploymentsFileInput): DeploymentsFileInput {
  const wanted = deployments.flatMap((one) => {
    const serves = one.serves.filter((id) => (adapterOf[id] ?? one.adapter) === one.adapter)
    // Of the media the vendors' own wires come first and suffice.
    return serves.length === 0 || one.name === 'open-speech' || one.name === 'open-transcription'
      ? []
      : [{ ...one, serves }]
  })
  return {
    deployments: wanted.map((one) => ({
      ...one,
      name: `${VENDOR}-${one.name}`,
      ...(one.adapter === 'elevenlabs' ? {} : { upstream_model: canaryModel(one.upstream_model) }),
      ...(one.voices === undefined
        ? {}
        : { voices: Object.fromEntries(Object.keys(one.voices).map((alias) => [alias, `${VENDOR}voice${alias}`])) }),
    })),
  }
}

/** The simulated vendors know models by how their names begin and end. */
function canaryModel(upstreamModel: string): string {
  const [, first = '', rest = ''] = /^([a-z]+-)(.*)$/.exec(upstreamModel) ?? []
  return `${first}${VENDOR}-${rest}`
}

let sandbox: TestSandbox
/** Between the worker and the vendors; what the deployments file knows of them. */
let vendors: AnswerGate
/** What no answer may hold: names, ids, addresses and keys of ours and of our vendors. */
let vendorSecrets: readonly string[]
/** What no log and no queue may hold, collected along the way. */
const callerSecrets = new Set<string>([CALLER])

beforeAll(async () => {
  sandbox = await startTestSandbox({
    connections: async (real) => {
      vendors = await startAnswerGate(real.upstreamUrl)
      return { ...real, upstreamUrl: vendors.url }
    },
    deployments: canaryDeployments,
    apiEnvironment: { LOG_LEVEL: 'debug' },
    workerEnvironment: { LOG_LEVEL: 'debug' },
  })
  const secrets = secretsSchema.parse(JSON.parse(await readFile(join(sandbox.directory, 'secrets.json'), 'utf8')))
  vendorSecrets = [
    VENDOR,
    secrets.upstreamApiKey,
    new URL(vendors.url).host,
    secrets.challengeSecret,
    secrets.receiptSecret,
    secrets.receiptSigningSeed,
    secrets.accounts.settlement.privateKey.slice(2),
    // Anthropic and OpenAI stand in header names that their client libraries read.
    'eleven_flash_v2_5',
    'scribe_v2',
    'elevenlabs',
    'gemini',
    'claude',
    'generateContent',
  ]
})
afterAll(async () => {
  await sandbox.stop()
  await vendors.stop()
})
beforeEach(() => sandbox.setFaults([]))

const secretsSchema = z.looseObject({
  upstreamApiKey: z.string(),
  challengeSecret: z.string(),
  receiptSecret: z.string(),
  receiptSigningSeed: z.string(),
  accounts: z.looseObject({ settlement: z.looseObject({ privateKey: z.string() }) }),
})

interface PaidCall {
  readonly path: string
  readonly body: Record<string, unknown>
  /** Of the simulated vendor. */
  readonly route: string
}

const tools = [{ name: `${CALLER}_tool`, description: CALLER, parameters: { type: 'object', properties: {} } }]
const text = { max_tokens: 60, temperature: 0.5 }
const routes = {
  gemini: '/v1beta/models/{model}:generateContent',
  anthropic: '/v1/messages',
  open: '/v1/chat/completions',
  speech: '/v1/text-to-speech/{voice_id}',
  transcription: '/v1/speech-to-text',
}
const chatWith = (model: string, route: string): PaidCall => ({
  path: '/v1/chat/completions',
  body: {
    ...text,
    model,
    messages: [
      { role: 'system', content: `${CALLER} system` },
      { role: 'user', content: `${CALLER} chat` },
    ],
    tools: tools.map((tool) => ({ type: 'function', function: tool })),
  },
  route,
})
const messageWith = (model: string, route: string): PaidCall => ({
  path: '/v1/messages',
  body: { ...text, model, system: `${CALLER} system`, messages: [{ role: 'user', content: `${CALLER} message` }] },
  route,
})

const calls: readonly PaidCall[] = [
  chatWith(ON_GEMINI, routes.gemini),
  chatWith(ON_OPEN, routes.open),
  messageWith(ON_ANTHROPIC, routes.anthropic),
  messageWith(ON_OPEN, routes.open),
  {
    path: '/v1/images/generations',
    body: { model: 'textmodel-3.1-flash-lite-image', prompt: `${CALLER} picture` },
    route: routes.gemini,
  },
  {
    path: '/v1/audio/speech',
    body: { model: 'speechvendor/flash-v2.5', input: `${CALLER} speech`, voice: 'talia' },
    route: routes.speech,
  },
  { path: '/v1/audio/transcriptions', body: { model: 'speechvendor/scribe-v2' }, route: routes.transcription },
]
const named = calls.map((call) => [`${call.path} on ${call.route}`, call] as const)

interface Answered {
  readonly status: number
  /** Headers and body as they came, of the 402, the paid answer and its replay. */
  readonly everything: string
  readonly body: string
}

/** Pays for a call and keeps what must stay between us and the caller. */
async function pay({ path, body: given }: PaidCall): Promise<Answered> {
  const body =
    path === '/v1/audio/transcriptions' ? { ...given, audio_base64: sandbox.sample.toString('base64') } : given
  const idempotencyKey = `${CALLER}-${randomUUID()}`
  const challenge = await sandbox.post(path, body, { idempotencyKey })
  expect(challenge.status).toBe(402)
  const headers = await sandbox.payer.sign(challenge)
  const payment = headers['PAYMENT-SIGNATURE'] ?? ''
  const { payload } = paymentSchema.parse(JSON.parse(Buffer.from(payment, 'base64').toString('utf8')))
  for (const secret of [payment, payload.signature, payload.signature.slice(2), idempotencyKey])
    callerSecrets.add(secret)
  const answers = [
    await readAnswer(challenge),
    await readAnswer(await sandbox.post(path, body, { idempotencyKey, headers })),
    await readAnswer(await sandbox.post(path, body, { idempotencyKey, headers })),
  ] as const
  return { ...answers[1], everything: answers.map(({ everything }) => everything).join('\n') }
}

const paymentSchema = z.looseObject({ payload: z.looseObject({ signature: z.string() }) })

async function readAnswer(answer: Response): Promise<Answered> {
  const body = await answer.text()
  const token = answer.headers.get('x-receipt-token')
  if (token !== null) callerSecrets.add(token)
  for (const [, mediaToken = ''] of body.matchAll(/\/media\/([\w-]+)/g)) callerSecrets.add(mediaToken)
  const decoded = [...answer.headers].map(
    ([name, value]) => `${name}: ${value} ${Buffer.from(value, 'base64').toString()}`,
  )
  return { status: answer.status, body, everything: [...decoded, body].join('\n') }
}

function expectNoneOf(secrets: Iterable<string>, everything: string): void {
  const lowered = everything.toLowerCase()
  const found = [...secrets].filter((secret) => lowered.includes(secret.toLowerCase()))
  expect(found).toEqual([])
}

/** What a vendor may call things, in every place where its answers have room for it. */
const wrapped = {
  headers: { 'request-id': VENDOR, 'x-request-id': VENDOR, 'openai-organization': VENDOR, server: VENDOR },
}
const secretBody = () => {
  const said = `${VENDOR} ${vendorSecrets.join(' ')} ${CALLER}`
  return {
    error: { message: said, type: VENDOR, code: VENDOR, param: said, status: VENDOR, details: [{ reason: VENDOR }] },
    detail: { message: said, status: VENDOR, code: VENDOR, type: VENDOR, request_id: VENDOR },
    request_id: VENDOR,
  }
}

function failingWith(status: number): readonly [string, () => FaultRuleInput] {
  return [`a ${status}`, () => ({ fault: 'status', status, body: secretBody(), ...wrapped })]
}

describe('nothing of our vendors reaches the caller', () => {
  test.each(named)('when it works: %s', async (_, call) => {
    const { status, everything } = await pay(call)
    expect(status).toBe(200)
    expectNoneOf(vendorSecrets, everything)
  })

  const answers: readonly (readonly [string, PaidCall, unknown])[] = [
    [
      'gemini',
      chatWith(ON_GEMINI, routes.gemini),
      {
        candidates: [
          {
            content: {
              role: 'model',
              parts: [
                { text: 'draft of vendorcanary', thought: true },
                { text: `${CALLER} answer`, thoughtSignature: VENDOR },
                { functionCall: { id: VENDOR, name: `${CALLER}_tool`, args: {} } },
              ],
            },
            finishReason: 'STOP',
            safetyRatings: [{ category: VENDOR }],
          },
        ],
        usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 2, trafficType: VENDOR },
        modelVersion: VENDOR,
        responseId: VENDOR,
      },
    ],
    [
      'an OpenAI-style server',
      chatWith(ON_OPEN, routes.open),
      {
        id: VENDOR,
        model: VENDOR,
        system_fingerprint: VENDOR,
        service_tier: VENDOR,
        choices: [
          {
            index: 0,
            finish_reason: 'tool_calls',
            logprobs: VENDOR,
            message: {
              role: 'assistant',
              content: `${CALLER} answer`,
              reasoning_content: VENDOR,
              tool_calls: [{ id: VENDOR, type: 'function', function: { name: `${CALLER}_tool`, arguments: '{}' } }],
            },
          },
        ],
        usage: { prompt_tokens: 3, completion_tokens: 2, vendor: VENDOR },
      },
    ],
    [
      'Anthropic',
      messageWith(ON_ANTHROPIC, routes.anthropic),
      {
        id: VENDOR,
        model: VENDOR,
        type: 'message',
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: VENDOR, signature: VENDOR },
          { type: 'text', text: `${CALLER} answer`, citations: [VENDOR] },
          { type: 'tool_use', id: VENDOR, name: `${CALLER}_tool`, input: {} },
        ],
        stop_reason: 'tool_use',
        stop_sequence: null,
        container: { id: VENDOR },
        usage: { input_tokens: 3, output_tokens: 2, service_tier: VENDOR },
      },
    ],
    [
      'ElevenLabs',
      calls.at(-1) as PaidCall,
      {
        text: `${CALLER} transcript`,
        language_code: 'en',
        language_probability: 1,
        transcription_id: VENDOR,
        additional_formats: [VENDOR],
        words: [{ text: CALLER, type: 'word', start: 0, end: 1, speaker_id: VENDOR, logprob: 0 }],
      },
    ],
  ]
  test.each(answers)('when %s names itself in every field it has', async (_, call, body) => {
    await sandbox.setFaults([{ fault: 'status', status: 200, body, route: call.route, ...wrapped }])
    const answered = await pay(call)
    expect(answered).toMatchObject({ status: 200 })
    expect(answered.body).toContain(CALLER)
    expectNoneOf(vendorSecrets, answered.everything)
  })

  const failures: readonly (readonly [string, () => FaultRuleInput])[] = [
    ...[400, 401, 403, 404, 413, 422, 429, 500, 503, 529].map(failingWith),
    ['a redirect', () => ({ fault: 'status', status: 302, headers: { location: `http://${VENDOR}/` } })],
    ['another shape', () => ({ fault: 'status', status: 200, body: secretBody(), ...wrapped })],
    ['no JSON', () => ({ fault: 'status', status: 200, body: `<h1>${VENDOR}</h1>`, ...wrapped })],
    ['a reset', () => ({ fault: 'resetAfterRead' })],
    ['nothing', () => ({ fault: 'emptyText' })],
  ]
  const spread = failures.flatMap(([name, fault], index) =>
    // Each failure on two wires in turn; the wires' own error mapping has its contract tests.
    [calls[index % calls.length], calls[(index + 3) % calls.length]].flatMap((call) =>
      call ? [[name, `${call.path} on ${call.route}`, call, fault] as const] : [],
    ),
  )
  test.each(spread)('when it fails with %s: %s', async (_, __, call, fault) => {
    const callsBefore = (await sandbox.upstreamCalls()).length
    await sandbox.setFaults([{ ...fault(), route: call.route, times: 'always' }])
    const { status, body, everything } = await pay(call)
    expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
    expect([400, 503]).toContain(status)
    expect(errorSchema.parse(JSON.parse(body)).error.code).toMatch(/^provider_/)
    expectNoneOf([...vendorSecrets, CALLER], body)
    expectNoneOf(vendorSecrets, everything)
  })

  test('by the public pages', async () => {
    const paths = ['/v1/models', '/v1/pricing', '/v1/audio/voices', '/.well-known/x402', '/healthz', '/readyz']
    for (const path of paths) {
      const { everything } = await readAnswer(await fetch(`${sandbox.info.baseUrl}${path}`))
      // Compatibility with public client libraries is told by their names.
      expectNoneOf(vendorSecrets.slice(0, 6), everything)
    }
  })
})

const errorSchema = z.looseObject({ error: z.looseObject({ code: z.string() }) })

describe('nothing of the caller reaches', () => {
  let mediaStatuses: readonly number[] = []
  /** Reads a receipt and media, so that their capabilities have been in requests as well. */
  beforeAll(async () => {
    await sandbox.setFaults([])
    const speech = calls.find(({ path }) => path === '/v1/audio/speech') as PaidCall
    const { body } = await pay(speech)
    const url = /"(http[^"]*\/media\/[\w-]+)"/.exec(body)?.[1] ?? ''
    mediaStatuses = [(await fetch(url)).status, (await fetch(`${url}x`)).status]
    const [receipt] = await sandbox.sql<{ receipt_id: string }>(
      'SELECT receipt_id FROM jobs WHERE receipt_id IS NOT NULL',
    )
    for (const token of [...callerSecrets].filter((secret) => secret.startsWith('k1.')))
      await fetch(`${sandbox.info.baseUrl}/v1/receipts/${receipt?.receipt_id ?? ''}`, {
        headers: { authorization: `Bearer ${token}` },
      })
    // What is refused is not logged either.
    await sandbox.post('/v1/audio/speech', { model: CALLER, input: CALLER }, { idempotencyKey: CALLER })
    await sandbox.post('/v1/messages', {}, { headers: { 'payment-signature': CALLER } })
    await fetch(`${sandbox.info.baseUrl}/${CALLER}?${CALLER}=${CALLER}`)
  })

  test('the logs', async () => {
    // Signatures, receipt tokens and media tokens were really collected.
    expect(callerSecrets.size).toBeGreaterThan(100)
    expect(mediaStatuses).toEqual([200, 404])
    const directory = join(sandbox.directory, 'logs')
    expect(await readdir(directory)).toEqual(expect.arrayContaining(['api.log', 'worker.log']))
    for (const name of ['api.log', 'worker.log']) {
      const log = await readFile(join(directory, name), 'utf8')
      expect(log).toContain(name === 'worker.log' ? 'provider call failed' : 'request failed')
      expectNoneOf(callerSecrets, log)
      const keys = vendorSecrets.slice(1, 6).filter((secret) => !secret.includes(':'))
      expectNoneOf([...keys, 'simulated transcript'], log)
    }
  })

  test('the queue', async () => {
    const tables = await sandbox.sql<{ name: string }>(
      `SELECT table_name AS name FROM information_schema.tables
       WHERE table_schema = 'farebox_queue' AND table_type = 'BASE TABLE'`,
    )
    expect(tables.length).toBeGreaterThan(0)
    // While a job waits for its provider its message is there.
    vendors.hold()
    const paid = pay(calls[0] as PaidCall)
    const jobIdSeen = async () => (await readQueue(tables)).includes('jobId')
    await expect.poll(jobIdSeen).toBe(true)
    expectNoneOf(callerSecrets, await readQueue(tables))
    vendors.release()
    await paid
    expectNoneOf(callerSecrets, await readQueue(tables))
  })
})

async function readQueue(tables: readonly { name: string }[]): Promise<string> {
  const rows = await Promise.all(
    tables.map(({ name }) => sandbox.sql<{ row: string }>(`SELECT row::text FROM farebox_queue."${name}" AS row`)),
  )
  return rows
    .flat()
    .map(({ row }) => row)
    .join('\n')
}
