import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { DeploymentsFileInput } from '#shared/catalog/deployments-file.ts'
import type { FaultRuleInput } from '../../../infra/sandbox/upstream/faults.ts'
import { type AnswerGate, startAnswerGate } from '../../support/http/answer-gate.ts'
import {
  type ModerationServer,
  sendJson,
  startModerationServer,
  verdicts,
} from '../../support/http/moderation-server.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

/** Marks everything that belongs to the vendors; no answer to a caller may contain it. */
const VENDOR = 'vendorcanary'
/** Marks everything that a caller sends or a model generates; nothing kept for operators may contain it. */
const CALLER = 'callercanary'
const SCREENING_KEY = 'screening-key-of-the-operator'
/** One model for each of the three wire formats of text. */
const [ON_GEMINI, ON_ANTHROPIC, ON_OPEN] = ['textmodel-2.5-flash', 'textmodel-2.5-pro', 'textmodel-3.5-flash'] as const
const ADAPTERS: Readonly<Record<string, string>> = {
  [ON_GEMINI]: 'gemini',
  [ON_ANTHROPIC]: 'anthropic',
  [ON_OPEN]: 'openai-compatible',
}
/** Turns every name in the deployments file into a canary, as far as the simulated vendors accept it. */
function canaryDeployments({ deployments }: DeploymentsFileInput): DeploymentsFileInput {
  const wanted = deployments.flatMap((deployment) => {
    const { name, adapter } = deployment
    const serves = deployment.serves.filter((id) => (ADAPTERS[id] ?? adapter) === adapter)
    // For media, the vendor's own wire format is enough.
    return serves.length === 0 || name === 'open-speech' || name === 'open-transcription'
      ? []
      : [{ ...deployment, serves }]
  })
  return {
    deployments: wanted.map((deployment) => {
      const { name, adapter, upstream_model, voices } = deployment
      return {
        ...deployment,
        name: `${VENDOR}-${name}`,
        ...(adapter === 'elevenlabs' ? {} : { upstream_model: canaryModel(upstream_model) }),
        ...(voices === undefined
          ? {}
          : { voices: Object.fromEntries(Object.keys(voices).map((alias) => [alias, `${VENDOR}voice${alias}`])) }),
      }
    }),
  }
}
/** Inserts the canary after the prefix: the simulated vendors recognize models by prefix and suffix. */
function canaryModel(upstreamModel: string): string {
  const [, first = '', rest = ''] = /^([a-z]+-)(.*)$/.exec(upstreamModel) ?? []
  return `${first}${VENDOR}-${rest}`
}
let sandbox: TestSandbox
/** Holds back the vendors' answers; the deployments file names its address as theirs. */
let vendors: AnswerGate
/** The safety dependency: screens every text before it goes to a vendor. */
let moderation: ModerationServer
/** Names, ids, addresses and keys of the service and its vendors, which no answer may contain. */
let vendorSecrets: readonly string[]
/** Content and credentials of callers, collected along the way, which neither logs nor queue may contain. */
const callerSecrets = new Set<string>([CALLER])
beforeAll(async () => {
  moderation = await startModerationServer()
  sandbox = await startTestSandbox({
    connections: async (real) => {
      vendors = await startAnswerGate(real.upstreamUrl)
      return { ...real, upstreamUrl: vendors.url }
    },
    deployments: canaryDeployments,
    apiEnvironment: { LOG_LEVEL: 'debug' },
    workerEnvironment: {
      LOG_LEVEL: 'debug',
      SCREENING_BASE_URL: moderation.baseUrl,
      SCREENING_API_KEY: SCREENING_KEY,
      SCREENING_MODEL: 'omni-moderation',
    },
  })
  const secrets = secretsSchema.parse(JSON.parse(await readFile(join(sandbox.directory, 'secrets.json'), 'utf8')))
  vendorSecrets = [
    VENDOR,
    secrets.upstreamApiKey,
    SCREENING_KEY,
    new URL(vendors.url).host,
    secrets.challengeSecret,
    secrets.receiptSecret,
    secrets.receiptSigningSeed,
    secrets.accounts.settlement.privateKey.slice(2),
    // Anthropic and OpenAI are left out: their names appear in headers that their client libraries read.
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
  await moderation.stop()
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
  /** The route of the simulated vendor. */
  readonly route: string
}
const TOOLS = [{ name: `${CALLER}_tool`, description: CALLER, parameters: { type: 'object', properties: {} } }]
const TEXT_OPTIONS = { max_tokens: 60, temperature: 0.5 }
const ROUTES = {
  gemini: '/v1beta/models/{model}:generateContent',
  anthropic: '/v1/messages',
  open: '/v1/chat/completions',
  speech: '/v1/text-to-speech/{voice_id}',
  transcription: '/v1/speech-to-text',
}
const chatWith = (model: string, route: string): PaidCall => ({
  path: '/v1/chat/completions',
  body: {
    ...TEXT_OPTIONS,
    model,
    messages: [
      { role: 'system', content: `${CALLER} system` },
      { role: 'user', content: `${CALLER} chat` },
    ],
    tools: TOOLS.map((tool) => ({ type: 'function', function: tool })),
  },
  route,
})
const messageWith = (model: string, route: string): PaidCall => ({
  path: '/v1/messages',
  body: {
    ...TEXT_OPTIONS,
    model,
    system: `${CALLER} system`,
    messages: [{ role: 'user', content: `${CALLER} message` }],
  },
  route,
})
const CALLS: readonly PaidCall[] = [
  chatWith(ON_GEMINI, ROUTES.gemini),
  chatWith(ON_OPEN, ROUTES.open),
  messageWith(ON_ANTHROPIC, ROUTES.anthropic),
  messageWith(ON_OPEN, ROUTES.open),
  {
    path: '/v1/images/generations',
    body: { model: 'textmodel-3.1-flash-lite-image', prompt: `${CALLER} picture` },
    route: ROUTES.gemini,
  },
  {
    path: '/v1/audio/speech',
    body: { model: 'speechvendor/flash-v2.5', input: `${CALLER} speech`, voice: 'talia' },
    route: ROUTES.speech,
  },
  { path: '/v1/audio/transcriptions', body: { model: 'speechvendor/scribe-v2' }, route: ROUTES.transcription },
]
const NAMED_CALLS = CALLS.map((call) => [`${call.path} on ${call.route}`, call] as const)
interface Answered {
  readonly status: number
  /** Headers and bodies of the 402, the paid answer and its replay. */
  readonly everything: string
  readonly body: string
}
/** Pays for a call and records what must stay between service and caller. */
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
/** Headers in which a vendor may name itself. */
const VENDOR_HEADERS = {
  headers: { 'request-id': VENDOR, 'x-request-id': VENDOR, 'openai-organization': VENDOR, server: VENDOR },
}
/** Returns an error body with the vendor's secrets in every member that a vendor's error has. */
const secretBody = () => {
  const message = `${VENDOR} ${vendorSecrets.join(' ')} ${CALLER}`
  return {
    error: { message, type: VENDOR, code: VENDOR, param: message, status: VENDOR, details: [{ reason: VENDOR }] },
    detail: { message, status: VENDOR, code: VENDOR, type: VENDOR, request_id: VENDOR },
    request_id: VENDOR,
  }
}
function failingWith(status: number): readonly [string, () => FaultRuleInput] {
  return [`a ${status}`, () => ({ fault: 'status', status, body: secretBody(), ...VENDOR_HEADERS })]
}
const errorSchema = z.looseObject({ error: z.looseObject({ code: z.string() }) })
async function readQueue(tables: readonly { name: string }[]): Promise<string> {
  const rows = await Promise.all(
    tables.map(({ name }) => sandbox.sql<{ row: string }>(`SELECT row::text FROM farebox_queue."${name}" AS row`)),
  )
  return rows
    .flat()
    .map(({ row }) => row)
    .join('\n')
}

/** Sends what clients of other kinds add to a first request, and payments that are refused. */
async function sendAsOtherClients(): Promise<void> {
  // agentcash 0.14 names its wallets and session; clients of x402 v1 send X-PAYMENT.
  const names = ['x-wallet-address', 'x-solana-wallet-address', 'x-session-id', 'x-payment']
  const headers = Object.fromEntries(names.map((name) => [name, `${CALLER}-${name}`]))
  const { path, body } = CALLS[0] as PaidCall
  const challenge = await sandbox.post(path, body, { idempotencyKey: `${CALLER}-other`, headers })
  expect(challenge.status).toBe(402)
  const signed = (await sandbox.payer.sign(challenge))['PAYMENT-SIGNATURE'] ?? ''
  const payment = JSON.parse(Buffer.from(signed, 'base64').toString()) as Record<string, unknown>
  const transfer = { authorization: { from: CALLER }, signature: CALLER }
  const refused = [
    [402, { ...payment, accepted: { ...(payment['accepted'] as object), scheme: CALLER } }],
    [400, { ...payment, payload: transfer }],
    [400, { x402Version: 1, scheme: 'exact', network: 'base', payload: transfer }],
    [402, { ...payment, accepted: { ...(payment['accepted'] as object), payTo: CALLER } }],
  ] as const
  for (const [status, sent] of refused) {
    const header = Buffer.from(JSON.stringify(sent)).toString('base64')
    callerSecrets.add(header)
    const paid = { ...headers, 'payment-signature': header }
    const answer = await sandbox.post(path, body, { idempotencyKey: `${CALLER}-other`, headers: paid })
    expect(answer.status).toBe(status)
  }
}

describe('the vendors’ secrets', () => {
  test.each(NAMED_CALLS)('reveals nothing about the vendor when the call succeeds: %s [spec S8a]', async (_, call) => {
    const { status, everything } = await pay(call)
    expect(status).toBe(200)
    expectNoneOf(vendorSecrets, everything)
  })

  const answers: readonly (readonly [string, PaidCall, unknown])[] = [
    [
      'gemini',
      chatWith(ON_GEMINI, ROUTES.gemini),
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
      chatWith(ON_OPEN, ROUTES.open),
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
      messageWith(ON_ANTHROPIC, ROUTES.anthropic),
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
      CALLS.at(-1) as PaidCall,
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
  test.each(answers)(
    'reveals nothing about the vendor when %s names itself in every field [spec S8b]',
    async (_, call, body) => {
      await sandbox.setFaults([{ fault: 'status', status: 200, body, route: call.route, ...VENDOR_HEADERS }])
      const answered = await pay(call)
      expect(answered).toMatchObject({ status: 200 })
      expect(answered.body).toContain(CALLER)
      expectNoneOf(vendorSecrets, answered.everything)
    },
  )

  const failures: readonly (readonly [string, () => FaultRuleInput])[] = [
    ...[400, 401, 403, 404, 413, 422, 429, 500, 503, 529].map(failingWith),
    ['a redirect', () => ({ fault: 'status', status: 302, headers: { location: `http://${VENDOR}/` } })],
    ['an unexpected shape', () => ({ fault: 'status', status: 200, body: secretBody(), ...VENDOR_HEADERS })],
    [
      'a body that is not JSON',
      () => ({ fault: 'status', status: 200, body: `<h1>${VENDOR}</h1>`, ...VENDOR_HEADERS }),
    ],
    ['a reset', () => ({ fault: 'resetAfterRead' })],
    ['empty output', () => ({ fault: 'emptyText' })],
  ]
  const spread = failures.flatMap(([name, fault], index) =>
    // Each failure on two of the wire formats; the contract tests cover the error mapping of each.
    [CALLS[index % CALLS.length], CALLS[(index + 3) % CALLS.length]].flatMap((call) =>
      call ? [[name, `${call.path} on ${call.route}`, call, fault] as const] : [],
    ),
  )
  test.each(spread)('reveals nothing about the vendor when it fails with %s: %s', async (_, __, call, fault) => {
    const callsBefore = (await sandbox.upstreamCalls()).length
    await sandbox.setFaults([{ ...fault(), route: call.route, times: 'always' }])
    const { status, body, everything } = await pay(call)
    expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
    expect([400, 503]).toContain(status)
    expect(errorSchema.parse(JSON.parse(body)).error.code).toMatch(/^(provider_|request_unsupported$)/)
    expectNoneOf([...vendorSecrets, CALLER], body)
    expectNoneOf(vendorSecrets, everything)
  })

  test('reveals nothing about the vendors on the public pages [spec R7]', async () => {
    const paths = ['/v1/models', '/v1/pricing', '/v1/audio/voices', '/.well-known/x402', '/healthz', '/readyz']
    for (const path of paths) {
      const { everything } = await readAnswer(await fetch(`${sandbox.info.baseUrl}${path}`))
      // The pages name the client libraries that they are compatible with.
      expectNoneOf(vendorSecrets.slice(0, 7), everything)
    }
  })
})

describe('safety screening', () => {
  const call = CALLS[0] as PaidCall
  afterEach(() => moderation.answerWith(verdicts()))

  /** Pays for the call and expects an error; nothing may have been sent to a vendor, charged or revealed. */
  async function expectScreenedOut(): Promise<Record<string, unknown>> {
    const [calls, screenings] = [(await sandbox.upstreamCalls()).length, moderation.calls.length]
    const transfers = (await sandbox.chain.transfersTo(sandbox.info.payTo)).length
    const { status, body, everything } = await pay(call)
    expect(await sandbox.upstreamCalls()).toHaveLength(calls)
    expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toHaveLength(transfers)
    expectNoneOf([...vendorSecrets, CALLER, 'violence'], everything)
    expect(moderation.calls.slice(screenings)).toMatchObject([
      {
        path: '/v1/moderations',
        headers: { authorization: `Bearer ${SCREENING_KEY}` },
        body: { input: expect.arrayContaining([`${CALLER} chat`]), model: 'omni-moderation' },
      },
    ])
    return { status, ...errorSchema.parse(JSON.parse(body)).error }
  }

  test('answers 503 without a vendor call or a charge while the screening service is down [spec T9]', async () => {
    moderation.answerWith((_, response) => sendJson(response, { error: {} }, 500))
    expect(await expectScreenedOut()).toMatchObject({
      status: 503,
      code: 'screening_unavailable',
      payment: 'none',
      retry: 'new_payment',
    })
  })

  test('answers 400 without a vendor call or a charge to a flagged text [spec O35]', async () => {
    moderation.answerWith(verdicts((text) => (text.includes('chat') ? ['violence'] : [])))
    expect(await expectScreenedOut()).toMatchObject({
      status: 400,
      code: 'content_rejected',
      payment: 'none',
      retry: 'never',
    })
  })
})

describe('the callers’ content and credentials', () => {
  let mediaStatuses: readonly number[] = []
  /** Reads a receipt and media, so that their tokens have been sent in requests as well. */
  beforeAll(async () => {
    await sandbox.setFaults([])
    const speech = CALLS.find(({ path }) => path === '/v1/audio/speech') as PaidCall
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
    // Content of rejected requests must not be logged either.
    await sandbox.post('/v1/audio/speech', { model: CALLER, input: CALLER }, { idempotencyKey: CALLER })
    await sandbox.post('/v1/messages', {}, { headers: { 'payment-signature': CALLER } })
    await sendAsOtherClients()
    await fetch(`${sandbox.info.baseUrl}/${CALLER}?${CALLER}=${CALLER}`)
  })

  test('the logs contain neither content nor credentials of callers [spec A6b]', async () => {
    // Signatures, receipt tokens and media tokens have been collected.
    expect(callerSecrets.size).toBeGreaterThan(100)
    expect(mediaStatuses).toEqual([200, 404])
    const directory = join(sandbox.directory, 'logs')
    expect(await readdir(directory)).toEqual(expect.arrayContaining(['api.log', 'worker.log']))
    for (const name of ['api.log', 'worker.log']) {
      const log = await readFile(join(directory, name), 'utf8')
      expect(log).toContain(name === 'worker.log' ? 'provider call failed' : 'request failed')
      expectNoneOf(callerSecrets, log)
      const keys = vendorSecrets.slice(1, 7).filter((secret) => !secret.includes(':'))
      expectNoneOf([...keys, 'simulated transcript'], log)
    }
  })

  test('the queue contains neither content nor credentials of callers', async () => {
    const tables = await sandbox.sql<{ name: string }>(
      `SELECT table_name AS name FROM information_schema.tables
       WHERE table_schema = 'farebox_queue' AND table_type = 'BASE TABLE'`,
    )
    expect(tables.length).toBeGreaterThan(0)
    // The message stays in the queue while its job waits for the provider.
    vendors.hold()
    const paid = pay(CALLS[0] as PaidCall)
    const jobIdSeen = async () => (await readQueue(tables)).includes('jobId')
    await expect.poll(jobIdSeen).toBe(true)
    expectNoneOf(callerSecrets, await readQueue(tables))
    vendors.release()
    await paid
    expectNoneOf(callerSecrets, await readQueue(tables))
  })
})
