import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodePaymentResponseHeader } from '@x402/core/http'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { DeploymentsFileInput } from '#shared/catalog/deployments-file.ts'
import { SETTLEMENT_MARGIN_SECONDS } from '#shared/operations/text/output-time.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { replaceFile } from '../../../infra/sandbox/replace-file.ts'
import type { FaultRuleInput } from '../../../infra/sandbox/upstream/faults.ts'
import { type AnswerGate, startAnswerGate } from '../../support/http/answer-gate.ts'
import { challengeOf, paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

/** Text models with separate first deployments, so that a circuit opened by one test affects no other. */
const [CHAT, UNPLUGGED, SLOW, BREAKING, UNSERVED] = [
  'textmodel-2.5-flash',
  'textmodel-3.5-flash',
  'textmodel-3.6-flash',
  'textmodel-3.5-flash-lite',
  'textmodel-3.1-flash-lite',
] as const
const SPEECH = 'speechvendor/flash-v2.5'
const IMAGE = 'textmodel-3.1-flash-lite-image'
/** Far below the authorization's lifetime; it only elapses through {@link advanceWorkerClock}. */
const TIMEOUT_SECONDS = 60
const PROVIDER_TIMEOUT_SECONDS = 120
/**
 * Definite failures that open a circuit, how long they count, and its pause before a trial call
 * (`workers/providers/circuit.ts`).
 */
const [FAILURES_TO_OPEN, CIRCUIT_WINDOW_SECONDS, CIRCUIT_PAUSE_SECONDS] = [5, 120, 15]
const SHIFTED_CLOCK = new URL('../../support/processes/shifted-clock.ts', import.meta.url).href
function testDeployments({ deployments }: DeploymentsFileInput, unusedPort: number): DeploymentsFileInput {
  const served = deployments
    .map((deployment) => ({
      ...deployment,
      serves: deployment.serves.filter((id) => id !== UNSERVED && id !== IMAGE),
    }))
    .filter(({ serves }) => serves.length > 0)
  return {
    deployments: served.map((deployment) => {
      const { name, serves } = deployment
      if (name.startsWith('gemini') && serves.includes(UNPLUGGED))
        return { ...deployment, base_url: `http://127.0.0.1:${unusedPort}` }
      const isSlow = serves.length === 1 && serves.includes(SLOW)
      return isSlow ? deployment : { ...deployment, timeout_seconds: TIMEOUT_SECONDS }
    }),
  }
}
let sandbox: TestSandbox
let payer: Payer
/** Holds back the vendors' answers to the worker. */
let vendors: AnswerGate
/** The worker's clock runs ahead of this process's by the milliseconds in `clockFile`. */
let [aheadSeconds, clockDirectory, clockFile] = [0, '', '']
async function advanceWorkerClock(seconds: number): Promise<void> {
  aheadSeconds += seconds
  await replaceFile(clockFile, String(aheadSeconds * 1000))
}
beforeAll(async () => {
  clockDirectory = await mkdtemp(join(tmpdir(), 'farebox-clock-'))
  clockFile = join(clockDirectory, 'ahead')
  await advanceWorkerClock(0)
  const unusedPort = await findFreePort()
  sandbox = await startTestSandbox({
    connections: async (real) => {
      vendors = await startAnswerGate(real.upstreamUrl)
      return { ...real, upstreamUrl: vendors.url }
    },
    deployments: (all) => testDeployments(all, unusedPort),
    apiEnvironment: {
      PROVIDER_TIMEOUT_SECONDS: String(PROVIDER_TIMEOUT_SECONDS),
      AUTHORIZATION_LIFETIME_SECONDS: '36000',
    },
    workerEnvironment: {
      NODE_OPTIONS: `--import ${SHIFTED_CLOCK}`,
      CLOCK_SHIFT_FILE: clockFile,
      PROVIDER_TIMEOUT_SECONDS: String(PROVIDER_TIMEOUT_SECONDS),
    },
  })
  payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 50_000_000n, approved: true })
})
afterAll(async () => {
  await sandbox.stop()
  await vendors.stop()
  await rm(clockDirectory, { recursive: true, force: true })
})
beforeEach(() => sandbox.setFaults([]))
afterEach(() => vendors.release())
interface CallKind {
  readonly path: string
  readonly body: Record<string, unknown>
  /** The simulated vendors' routes that the first and the second deployment call. */
  readonly routes: readonly [string, string]
  readonly charge: bigint
}
const chatWith = (model: string): CallKind => ({
  path: '/v1/chat/completions',
  body: { model, max_tokens: 50, messages: [{ role: 'user', content: 'Where does the last tram go?' }] },
  routes: ['/v1beta/models/{model}:generateContent', '/v1/chat/completions'],
  charge: 2000n,
})
const chat = chatWith(CHAT)
const speech: CallKind = {
  path: '/v1/audio/speech',
  body: { model: SPEECH, input: 'Next stop: the end of the line.', voice: 'talia' },
  routes: ['/v1/text-to-speech/{voice_id}', '/v1/audio/speech'],
  charge: 6836n,
}
/** Everything observable about one paid request. */
interface Observation {
  readonly status: number
  readonly code: string | null
  readonly payment: string | null
  readonly retry: string | null
  /** The vendors' routes that were called, in order. */
  readonly calls: readonly string[]
  readonly attempts: readonly string[]
  /** Moved on chain during the request. */
  readonly charged: bigint
  /** Named by `PAYMENT-RESPONSE`. */
  readonly reported: bigint
}
const transfersOf = async () =>
  (await sandbox.chain.transfersTo(sandbox.info.payTo)).filter(
    ({ from }) => from.toLowerCase() === payer.account.address.toLowerCase(),
  )
const callCount = async () => (await sandbox.upstreamCalls()).length
async function signFor({ path, body }: CallKind, idempotencyKey: string, deadline?: bigint) {
  const challenge = await sandbox.post(path, body, { idempotencyKey })
  expect(challenge.status).toBe(402)
  const terms = deadline === undefined ? {} : { deadline }
  return paymentHeader(await signCustomPayment(challengeOf(challenge), payer, { terms }))
}
/** Sends a signed request and returns everything it changed. */
async function send(kind: CallKind, idempotencyKey: string, headers: Record<string, string>): Promise<Observation> {
  const [callsBefore, transfersBefore] = [await callCount(), (await transfersOf()).length]
  const answer = await sandbox.post(kind.path, kind.body, { idempotencyKey, headers })
  const body = (await answer.json()) as { error?: { code: string; payment: string; retry: string } }
  const moved = (await transfersOf()).slice(transfersBefore).map(({ valueAtomic }) => valueAtomic)
  const settled = answer.headers.get('payment-response')
  return {
    status: answer.status,
    code: body.error?.code ?? null,
    payment: body.error?.payment ?? null,
    retry: body.error?.retry ?? null,
    calls: (await sandbox.upstreamCalls()).slice(callsBefore).map(({ route }) => route),
    attempts: await attemptsOf(idempotencyKey),
    charged: moved.reduce((sum, value) => sum + value, 0n),
    reported: settled === null ? 0n : BigInt(decodePaymentResponseHeader(settled).amount ?? ''),
  }
}
/** Returns the states of the attempts made for the job's current authorization. */
async function attemptsOf(idempotencyKey: string): Promise<readonly string[]> {
  const rows = await sandbox.sql<{ state: string }>(
    `SELECT upstream_attempts.state FROM upstream_attempts JOIN jobs USING (authorization_id)
     WHERE idempotency_key = $1 ORDER BY started_at`,
    [idempotencyKey],
  )
  return rows.map(({ state }) => state)
}
async function pay(kind: CallKind, idempotencyKey: string = randomUUID(), deadline?: bigint): Promise<Observation> {
  return await send(kind, idempotencyKey, await signFor(kind, idempotencyKey, deadline))
}
const uncharged = (status: number, code: string, retry: string) => ({
  status,
  code,
  payment: 'none',
  retry,
  charged: 0n,
  reported: 0n,
})
const paid = ({ charge }: CallKind, calls: readonly string[], attempts: readonly string[]): Observation => ({
  status: 200,
  code: null,
  payment: null,
  retry: null,
  calls,
  attempts,
  charged: charge,
  reported: charge,
})
/** Returns the expected outcome when the first deployment fails. */
const failedOver = (kind: CallKind): Observation => paid(kind, kind.routes, ['failed_definite', 'succeeded'])
const outcomeUnknown = ({ routes }: CallKind): Observation => ({
  ...uncharged(503, 'provider_outcome_unknown', 'new_payment'),
  calls: [routes[0]],
  attempts: ['failed_ambiguous'],
})
const emptyOutput = ({ routes }: CallKind): Observation => ({
  ...uncharged(503, 'provider_empty_output', 'never'),
  calls: [routes[0]],
  attempts: ['failed_empty'],
})
const rejected = ({ routes }: CallKind): Observation => ({
  ...uncharged(400, 'provider_rejected', 'never'),
  calls: routes,
  attempts: ['failed_definite', 'failed_definite'],
})
const status = (code: number, body?: unknown): FaultRuleInput => ({ fault: 'status', status: code, body })
const google = (code: number, name: string) => status(code, { error: { code, message: 'x', status: name } })
const OUTCOMES = {
  'fails over': failedOver,
  'leaves the outcome unknown': outcomeUnknown,
  'ends with an empty output': emptyOutput,
} as const
type FaultCase = readonly [
  operation: string,
  fault: string,
  outcome: keyof typeof OUTCOMES,
  kind: CallKind,
  rule: FaultRuleInput,
]
const FAULT_CASES: readonly FaultCase[] = [
  ['chat', 'a 429', 'fails over', chat, status(429)],
  ['chat', 'a 401', 'fails over', chat, status(401)],
  ['chat', 'a 404', 'fails over', chat, status(404)],
  // Vendors bill no 400, and report with it what only their own model does not support.
  ['chat', 'a 400', 'fails over', chat, status(400)],
  // The vendor documents that it bills neither of its own 500 and 503.
  ['chat', 'the vendor’s own 500', 'fails over', chat, google(500, 'INTERNAL')],
  ['chat', 'the vendor’s own 503', 'fails over', chat, google(503, 'UNAVAILABLE')],
  ['chat', 'a 500 of an intermediary', 'leaves the outcome unknown', chat, status(500)],
  ['chat', 'a 503 of an intermediary', 'leaves the outcome unknown', chat, status(503)],
  ['chat', 'a 504', 'leaves the outcome unknown', chat, google(504, 'DEADLINE_EXCEEDED')],
  ['chat', 'a reset before the request is read', 'leaves the outcome unknown', chat, { fault: 'resetBeforeRead' }],
  ['chat', 'a reset after the request is read', 'leaves the outcome unknown', chat, { fault: 'resetAfterRead' }],
  ['chat', 'a reset in the middle of the response', 'leaves the outcome unknown', chat, { fault: 'resetMidBody' }],
  ['chat', 'truncated JSON', 'leaves the outcome unknown', chat, { fault: 'truncatedJson' }],
  ['chat', 'no response before the timeout', 'leaves the outcome unknown', chat, { fault: 'hang' }],
  ['chat', 'an empty response', 'ends with an empty output', chat, { fault: 'emptyText' }],
  ['speech', 'a 429', 'fails over', speech, status(429)],
  ['speech', 'a 401', 'fails over', speech, status(401)],
  ['speech', 'a 422', 'fails over', speech, status(422)],
  // This vendor promises nothing about 5xx responses.
  ['speech', 'a 500', 'leaves the outcome unknown', speech, status(500)],
  ['speech', 'a 503', 'leaves the outcome unknown', speech, status(503)],
  ['speech', 'a reset before the request is read', 'leaves the outcome unknown', speech, { fault: 'resetBeforeRead' }],
  ['speech', 'a reset after the request is read', 'leaves the outcome unknown', speech, { fault: 'resetAfterRead' }],
  ['speech', 'a reset in the middle of the response', 'leaves the outcome unknown', speech, { fault: 'resetMidBody' }],
  ['speech', 'no response before the timeout', 'leaves the outcome unknown', speech, { fault: 'hang' }],
  ['speech', 'an empty response', 'ends with an empty output', speech, { fault: 'emptyText' }],
]
/** Returns a deadline that leaves time for one call and its settlement, plus a minute. */
const deadlineAfterCall = () => secondsFromNow(aheadSeconds + PROVIDER_TIMEOUT_SECONDS + SETTLEMENT_MARGIN_SECONDS + 60)

describe('a failure of the first deployment', () => {
  test.each(FAULT_CASES)(
    '%s, when the first deployment answers with %s: %s [spec O13]',
    async (_, __, outcome, kind, fault) => {
      // The failures of earlier cases no longer count.
      await advanceWorkerClock(CIRCUIT_WINDOW_SECONDS)
      const expected = OUTCOMES[outcome](kind)
      const idempotencyKey = randomUUID()
      const headers = await signFor(kind, idempotencyKey)
      await sandbox.setFaults([{ ...fault, route: kind.routes[0] }])
      const calls = await callCount()
      const sending = send(kind, idempotencyKey, headers)
      if (fault.fault === 'hang') {
        await until(async () => (await callCount()) > calls)
        await advanceWorkerClock(TIMEOUT_SECONDS)
      }
      expect(await sending).toEqual(expected)

      // The same authorization gets the same answer without another call.
      expect(await send(kind, idempotencyKey, headers)).toEqual({ ...expected, calls: [], charged: 0n })
      if (expected.status === 200) return
      expect(await pay(kind, idempotencyKey)).toEqual(paid(kind, [kind.routes[0]], ['succeeded']))
    },
  )
})

describe('a deployment', () => {
  test('skips a deployment that cannot be connected to', async () => {
    const kind = chatWith(UNPLUGGED)
    expect(await pay(kind)).toEqual(paid(kind, [kind.routes[1]], ['failed_definite', 'succeeded']))
  })

  test('skips a deployment for as long as its retry-after asks', async () => {
    const [first, second] = speech.routes
    await sandbox.setFaults([{ fault: 'status', status: 429, headers: { 'retry-after': '120' }, route: first }])
    expect(await pay(speech)).toEqual(failedOver(speech))
    expect(await pay(speech)).toEqual(paid(speech, [second], ['succeeded']))
    await advanceWorkerClock(120)
    expect(await pay(speech)).toEqual(paid(speech, [first], ['succeeded']))
  })

  test('keeps calling a deployment whose outcomes are unknown for one payer only', async () => {
    const kind = chatWith(BREAKING)
    const [first] = kind.routes
    await sandbox.setFaults([{ fault: 'resetAfterRead', times: FAILURES_TO_OPEN, route: first }])
    for (let call = 0; call < FAILURES_TO_OPEN; call += 1) expect(await pay(kind)).toEqual(outcomeUnknown(kind))
    expect(await pay(kind)).toEqual(paid(kind, [first], ['succeeded']))
    await advanceWorkerClock(CIRCUIT_WINDOW_SECONDS)
  })

  test('skips a deployment that keeps failing, and tries it again after a pause', async () => {
    const kind = chatWith(BREAKING)
    const [first, second] = kind.routes
    await sandbox.setFaults([{ fault: 'status', status: 401, times: FAILURES_TO_OPEN, route: first }])
    for (let call = 0; call < FAILURES_TO_OPEN; call += 1) expect(await pay(kind)).toEqual(failedOver(kind))
    // It has recovered but is not called. Setting the clock back a minute keeps a slow call within the pause.
    await advanceWorkerClock(-60)
    expect(await pay(kind)).toEqual(paid(kind, [second], ['succeeded']))
    await advanceWorkerClock(60 + CIRCUIT_PAUSE_SECONDS)
    expect(await pay(kind)).toEqual(paid(kind, [first], ['succeeded']))
    expect(await pay(kind)).toEqual(paid(kind, [first], ['succeeded']))
  })
})

describe('the end of failover', () => {
  test.each([
    ['chat', chat],
    ['speech', speech],
  ])('failover ends uncharged after the last deployment, and a fresh payment succeeds: %s', async (_, kind) => {
    const idempotencyKey = randomUUID()
    const headers = await signFor(kind, idempotencyKey)
    await sandbox.setFaults([{ ...status(429), times: 2 }])
    const allDown: Observation = {
      ...uncharged(503, 'provider_unavailable', 'new_payment'),
      calls: kind.routes,
      attempts: ['failed_definite', 'failed_definite'],
    }
    expect(await send(kind, idempotencyKey, headers)).toEqual(allDown)
    expect(await send(kind, idempotencyKey, headers)).toEqual({ ...allDown, calls: [] })
    expect(await pay(kind, idempotencyKey)).toEqual(paid(kind, [kind.routes[0]], ['succeeded']))
  })

  test.each([
    ['chat', chat],
    ['speech', speech],
  ])('failover ends with a rejection, uncharged, when a second deployment rejects the input: %s', async (_, kind) => {
    const idempotencyKey = randomUUID()
    const headers = await signFor(kind, idempotencyKey)
    await sandbox.setFaults([{ ...status(400), times: 2 }])
    expect(await send(kind, idempotencyKey, headers)).toEqual(rejected(kind))
    expect(await send(kind, idempotencyKey, headers)).toEqual({ ...rejected(kind), calls: [] })
  })

  test.each([
    ['chat', chat],
    ['speech', speech],
  ])('failover stops at an ambiguous failure of the second deployment: %s [spec O13]', async (_, kind) => {
    const idempotencyKey = randomUUID()
    const headers = await signFor(kind, idempotencyKey)
    await sandbox.setFaults([
      { ...status(429), route: kind.routes[0] },
      { fault: 'resetAfterRead', route: kind.routes[1] },
    ])
    const unknown: Observation = {
      ...outcomeUnknown(kind),
      calls: kind.routes,
      attempts: ['failed_definite', 'failed_ambiguous'],
    }
    expect(await send(kind, idempotencyKey, headers)).toEqual(unknown)
    expect(await send(kind, idempotencyKey, headers)).toEqual({ ...unknown, calls: [] })
  })

  test('failover stops when the authorization has no time left for another call and its settlement', async () => {
    const kind = chatWith(SLOW)
    const [first] = kind.routes
    await sandbox.setFaults([{ ...status(429), route: first }])
    expect(await pay(kind, randomUUID(), deadlineAfterCall())).toEqual(failedOver(kind))
    await sandbox.setFaults([{ ...status(429), route: first }])
    vendors.hold()
    const calls = await callCount()
    const paying = pay(kind, randomUUID(), deadlineAfterCall())
    await until(async () => (await callCount()) > calls)
    await advanceWorkerClock(100)
    vendors.release()
    expect(await paying).toEqual({
      ...uncharged(503, 'provider_unavailable', 'new_payment'),
      calls: [first],
      attempts: ['failed_definite'],
    })
  })
})

describe('a model without a deployment', () => {
  const chatBody = { model: UNSERVED, messages: [{ role: 'user', content: 'x' }], max_tokens: 10 }
  const requests: readonly (readonly [string, Record<string, unknown>])[] = [
    ['/v1/chat/completions', chatBody],
    ['/v1/messages', chatBody],
    ['/v1/images/generations', { model: IMAGE, prompt: 'A tram' }],
  ]

  test('lists and prices no model without a deployment, and no category without a model [spec S4b]', async () => {
    const list = (await (await fetch(`${sandbox.info.baseUrl}/v1/models`)).json()) as {
      data: { id: string }[]
      categories: { id: string; model_ids: string[] }[]
    }
    const listed = list.data.map(({ id }) => id)
    expect(listed).toContain(CHAT)
    expect(listed).not.toContain(UNSERVED)
    expect(list.categories.map(({ id }) => id)).toEqual(['text_generation', 'text_to_speech', 'speech_to_text'])
    const answers = await Promise.all(
      ['/v1/models', '/v1/pricing'].map(async (path) => (await fetch(`${sandbox.info.baseUrl}${path}`)).text()),
    )
    // The image model's id starts with the text model's, so ids are matched with their quotes.
    for (const text of answers) for (const id of [UNSERVED, IMAGE]) expect(text).not.toContain(`"${id}"`)
  })

  test.each(requests)(
    'answers 503 instead of a quote for a model without a deployment: %s [spec S4c]',
    async (path, body) => {
      const idempotencyKey = randomUUID()
      const answer = await sandbox.post(path, body, { idempotencyKey })
      expect(answer.status).toBe(503)
      expect(answer.headers.get('payment-required')).toBeNull()
      expect(await answer.json()).toMatchObject({
        error: { code: 'model_unavailable', param: 'model', payment: 'none' },
      })
      expect(await sandbox.sql('SELECT 1 FROM idempotency_keys WHERE idempotency_key = $1', [idempotencyKey])).toEqual(
        [],
      )
    },
  )

  test('reports a reused idempotency key in preference to a request that cannot be priced', async () => {
    const idempotencyKey = randomUUID()
    const post = (body: Record<string, unknown>) => sandbox.post('/v1/chat/completions', body, { idempotencyKey })
    expect((await post({ ...chatBody, model: CHAT })).status).toBe(402)
    const tooLong = { ...chatBody, model: CHAT, messages: [{ role: 'user', content: 'x'.repeat(1_100_000) }] }
    for (const unpriced of [chatBody, tooLong]) {
      const answer = await post(unpriced)
      expect(answer.status).toBe(409)
      expect(await answer.json()).toMatchObject({ error: { code: 'idempotency_key_reused', payment: 'none' } })
    }
  })
})
