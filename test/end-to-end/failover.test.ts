import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodePaymentResponseHeader } from '@x402/core/http'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { DeploymentsFileInput } from '#shared/catalog/deployments-file.ts'
import { findFreePort } from '../../infra/sandbox/free-port.ts'
import { replaceFile } from '../../infra/sandbox/replace-file.ts'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import { type AnswerGate, startAnswerGate } from '../support/http/answer-gate.ts'
import {
  challengeOf,
  createPayer,
  paymentHeader,
  secondsFromNow,
  signCustomPayment,
  type TestPayer,
} from '../support/payer/custom-payment.ts'
import { startTestSandbox, type TestSandbox } from '../support/processes/test-sandbox.ts'
import { until } from '../support/until.ts'

/** Each text model has a first deployment of its own, so that what one test does to its circuit meets no other. */
const [CHAT, UNPLUGGED, SLOW, BREAKING, UNSERVED] = [
  'textmodel-2.5-flash',
  'textmodel-3.5-flash',
  'textmodel-3.6-flash',
  'textmodel-3.5-flash-lite',
  'textmodel-3.1-flash-lite',
] as const
const SPEECH = 'speechvendor/flash-v2.5'
const IMAGE = 'textmodel-3.1-flash-lite-image'

/** What a deployment may take, far below what the payer's time allows. All of it passes only where {@link letPass} says so. */
const TIMEOUT_SECONDS = 60
const [PROVIDER_TIMEOUT_SECONDS, SETTLEMENT_MARGIN_SECONDS] = [120, 60]
/** Failures in a row that open a circuit, and its rest before one call may try (`workers/providers/route.ts`). */
const [FAILURES_TO_OPEN, CIRCUIT_PAUSE_SECONDS] = [5, 15]
const SHIFTED_CLOCK = new URL('../support/processes/shifted-clock.ts', import.meta.url).href

function testDeployments({ deployments }: DeploymentsFileInput, unusedPort: number): DeploymentsFileInput {
  const served = deployments
    .map((one) => ({ ...one, serves: one.serves.filter((id) => id !== UNSERVED && id !== IMAGE) }))
    .filter(({ serves }) => serves.length > 0)
  return {
    deployments: served.map((one) => {
      if (one.name.startsWith('gemini') && one.serves.includes(UNPLUGGED))
        return { ...one, base_url: `http://127.0.0.1:${unusedPort}` }
      return one.serves.length === 1 && one.serves.includes(SLOW) ? one : { ...one, timeout_seconds: TIMEOUT_SECONDS }
    }),
  }
}

let sandbox: TestSandbox
let payer: TestPayer
/** Between the worker and the vendors. */
let vendors: AnswerGate
/** The worker's clock is ahead of ours by what `clockFile` says. */
let [aheadSeconds, clockDirectory, clockFile] = [0, '', '']

/** Moves the worker's clock on. */
async function letPass(seconds: number): Promise<void> {
  aheadSeconds += seconds
  await replaceFile(clockFile, String(aheadSeconds * 1000))
}

beforeAll(async () => {
  clockDirectory = await mkdtemp(join(tmpdir(), 'farebox-clock-'))
  clockFile = join(clockDirectory, 'ahead')
  await letPass(0)
  const unusedPort = await findFreePort()
  sandbox = await startTestSandbox({
    connections: async (real) => {
      vendors = await startAnswerGate(real.upstreamUrl)
      return { ...real, upstreamUrl: vendors.url }
    },
    deployments: (all) => testDeployments(all, unusedPort),
    apiEnvironment: {
      MINIMUM_AUTHORIZATION_SECONDS: String(PROVIDER_TIMEOUT_SECONDS + SETTLEMENT_MARGIN_SECONDS),
      AUTHORIZATION_LIFETIME_SECONDS: '36000',
    },
    workerEnvironment: {
      NODE_OPTIONS: `--import ${SHIFTED_CLOCK}`,
      CLOCK_SHIFT_FILE: clockFile,
      PROVIDER_TIMEOUT_SECONDS: String(PROVIDER_TIMEOUT_SECONDS),
      SETTLEMENT_MARGIN_SECONDS: String(SETTLEMENT_MARGIN_SECONDS),
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

interface Kind {
  readonly path: string
  readonly body: Record<string, unknown>
  /** The simulated upstream's routes of the first and the second deployment. */
  readonly routes: readonly [string, string]
  readonly charge: bigint
}

const chatWith = (model: string): Kind => ({
  path: '/v1/chat/completions',
  body: { model, max_tokens: 50, messages: [{ role: 'user', content: 'Where does the last tram go?' }] },
  routes: ['/v1beta/models/{model}:generateContent', '/v1/chat/completions'],
  charge: 2000n,
})
const chat = chatWith(CHAT)
const speech: Kind = {
  path: '/v1/audio/speech',
  body: { model: SPEECH, input: 'Next stop: the end of the line.', voice: 'talia' },
  routes: ['/v1/text-to-speech/{voice_id}', '/v1/audio/speech'],
  charge: 6836n,
}

/** Everything there is to see of one paid request, in all ledgers. */
interface Seen {
  readonly status: number
  readonly code: string | null
  readonly payment: string | null
  readonly retry: string | null
  /** Routes that the upstream was called on, in order. */
  readonly calls: readonly string[]
  readonly attempts: readonly string[]
  /** What really moved on chain meanwhile, and what the answer says was paid. */
  readonly charged: bigint
  readonly told: bigint
}

const transfersOf = async () =>
  (await sandbox.chain.transfersTo(sandbox.info.payTo as `0x${string}`)).filter(
    ({ from }) => from.toLowerCase() === payer.account.address.toLowerCase(),
  )

const callCount = async () => (await sandbox.upstreamCalls()).length

async function signFor({ path, body }: Kind, idempotencyKey: string, deadline?: bigint) {
  const challenge = await sandbox.post(path, body, { idempotencyKey })
  expect(challenge.status).toBe(402)
  const terms = deadline === undefined ? {} : { deadline }
  return paymentHeader(await signCustomPayment(challengeOf(challenge), payer, { terms }))
}

/** Sends a signed request and looks at everything it changed. */
async function send(kind: Kind, idempotencyKey: string, headers: Record<string, string>): Promise<Seen> {
  const [callsBefore, transfersBefore] = [(await sandbox.upstreamCalls()).length, (await transfersOf()).length]
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
    told: settled === null ? 0n : BigInt(decodePaymentResponseHeader(settled).amount ?? ''),
  }
}

/** States of the attempts of the authorization that the job has now. */
async function attemptsOf(idempotencyKey: string): Promise<readonly string[]> {
  const rows = await sandbox.sql<{ state: string }>(
    `SELECT upstream_attempts.state FROM upstream_attempts JOIN jobs USING (authorization_id)
     WHERE idempotency_key = $1 ORDER BY started_at`,
    [idempotencyKey],
  )
  return rows.map(({ state }) => state)
}

async function pay(kind: Kind, idempotencyKey: string = randomUUID(), deadline?: bigint): Promise<Seen> {
  return await send(kind, idempotencyKey, await signFor(kind, idempotencyKey, deadline))
}

const uncharged = (status: number, code: string, retry: string) => ({
  status,
  code,
  payment: 'none',
  retry,
  charged: 0n,
  told: 0n,
})

const paid = ({ charge }: Kind, calls: readonly string[], attempts: readonly string[]): Seen => ({
  status: 200,
  code: null,
  payment: null,
  retry: null,
  calls,
  attempts,
  charged: charge,
  told: charge,
})

/** What follows a fault of the first deployment. */
const failsOver = (kind: Kind): Seen => paid(kind, kind.routes, ['failed_definite', 'succeeded'])
const staysUnknown = ({ routes }: Kind): Seen => ({
  ...uncharged(503, 'provider_outcome_unknown', 'new_payment'),
  calls: [routes[0]],
  attempts: ['failed_ambiguous'],
})
const givesNothing = ({ routes }: Kind): Seen => ({
  ...uncharged(503, 'provider_empty_output', 'new_payment'),
  calls: [routes[0]],
  attempts: ['failed_definite'],
})
const isRefused = ({ routes }: Kind): Seen => ({
  ...uncharged(400, 'provider_rejected', 'never'),
  calls: [routes[0]],
  attempts: ['failed_definite'],
})

const status = (code: number, body?: unknown): FaultRuleInput => ({ fault: 'status', status: code, body })
const google = (code: number, name: string) => status(code, { error: { code, message: 'x', status: name } })

const faults: readonly (readonly [string, string, Kind, FaultRuleInput, (kind: Kind) => Seen])[] = [
  ['chat', 'a 429', chat, status(429), failsOver],
  ['chat', 'a 401', chat, status(401), failsOver],
  ['chat', 'a 404', chat, status(404), failsOver],
  ['chat', 'a 400', chat, status(400), isRefused],
  // The vendor documents that it bills neither of its own two.
  ['chat', 'the vendor’s own 500', chat, google(500, 'INTERNAL'), failsOver],
  ['chat', 'the vendor’s own 503', chat, google(503, 'UNAVAILABLE'), failsOver],
  ['chat', 'a 500 of something in between', chat, status(500), staysUnknown],
  ['chat', 'a 503 of something in between', chat, status(503), staysUnknown],
  ['chat', 'a 504', chat, google(504, 'DEADLINE_EXCEEDED'), staysUnknown],
  ['chat', 'a reset before reading', chat, { fault: 'resetBeforeRead' }, staysUnknown],
  ['chat', 'a reset after reading', chat, { fault: 'resetAfterRead' }, staysUnknown],
  ['chat', 'a reset inside the answer', chat, { fault: 'resetMidBody' }, staysUnknown],
  ['chat', 'half a JSON text', chat, { fault: 'truncatedJson' }, staysUnknown],
  ['chat', 'hanging past the deployment’s timeout', chat, { fault: 'hang' }, staysUnknown],
  ['chat', 'an empty answer', chat, { fault: 'emptyText' }, givesNothing],
  ['speech', 'a 429', speech, status(429), failsOver],
  ['speech', 'a 401', speech, status(401), failsOver],
  ['speech', 'a 422', speech, status(422), isRefused],
  // This vendor gives no promise for any 5xx.
  ['speech', 'a 500', speech, status(500), staysUnknown],
  ['speech', 'a 503', speech, status(503), staysUnknown],
  ['speech', 'a reset before reading', speech, { fault: 'resetBeforeRead' }, staysUnknown],
  ['speech', 'a reset after reading', speech, { fault: 'resetAfterRead' }, staysUnknown],
  ['speech', 'a reset inside the answer', speech, { fault: 'resetMidBody' }, staysUnknown],
  ['speech', 'hanging past the deployment’s timeout', speech, { fault: 'hang' }, staysUnknown],
  ['speech', 'an empty answer', speech, { fault: 'emptyText' }, givesNothing],
]

describe('the first deployment answers with', () => {
  test.each(faults)('%s: %s', async (_, __, kind, fault, expectation) => {
    const expected = expectation(kind)
    const idempotencyKey = randomUUID()
    const headers = await signFor(kind, idempotencyKey)
    await sandbox.setFaults([{ ...fault, route: kind.routes[0] }])
    const calls = await callCount()
    const sending = send(kind, idempotencyKey, headers)
    if (fault.fault === 'hang') {
      await until(async () => (await callCount()) > calls)
      await letPass(TIMEOUT_SECONDS)
    }
    expect(await sending).toEqual(expected)

    // The same authorization gets the same answer again, and no further call.
    expect(await send(kind, idempotencyKey, headers)).toEqual({ ...expected, calls: [], charged: 0n })
    if (expected.status === 200) return
    expect(await pay(kind, idempotencyKey)).toEqual(paid(kind, [kind.routes[0]], ['succeeded']))
  })
})

describe('a deployment', () => {
  test('that cannot be connected to is passed over', async () => {
    const kind = chatWith(UNPLUGGED)
    expect(await pay(kind)).toEqual(paid(kind, [kind.routes[1]], ['failed_definite', 'succeeded']))
  })

  test('that asks for a pause is left alone for as long', async () => {
    const [first, second] = speech.routes
    await sandbox.setFaults([{ fault: 'status', status: 429, headers: { 'retry-after': '120' }, route: first }])
    expect(await pay(speech)).toEqual(failsOver(speech))
    expect(await pay(speech)).toEqual(paid(speech, [second], ['succeeded']))
    await letPass(120)
    expect(await pay(speech)).toEqual(paid(speech, [first], ['succeeded']))
  })

  test('that keeps failing is left out, and taken back after a pause', async () => {
    const kind = chatWith(BREAKING)
    const [first, second] = kind.routes
    await sandbox.setFaults([{ fault: 'resetAfterRead', times: FAILURES_TO_OPEN, route: first }])
    for (let call = 0; call < FAILURES_TO_OPEN; call += 1) expect(await pay(kind)).toEqual(staysUnknown(kind))
    // It would work again, but nobody asks it, however long the call takes: it begins a minute ago.
    await letPass(-60)
    expect(await pay(kind)).toEqual(paid(kind, [second], ['succeeded']))
    await letPass(60 + CIRCUIT_PAUSE_SECONDS)
    expect(await pay(kind)).toEqual(paid(kind, [first], ['succeeded']))
    expect(await pay(kind)).toEqual(paid(kind, [first], ['succeeded']))
  })
})

/** Leaves the worker the time for a call and its settlement, and a minute. */
const deadlineAfterCall = () => secondsFromNow(aheadSeconds + PROVIDER_TIMEOUT_SECONDS + SETTLEMENT_MARGIN_SECONDS + 60)

describe('failover stops', () => {
  test.each([
    ['chat', chat],
    ['speech', speech],
  ])('at the last deployment, uncharged, and a fresh payment succeeds: %s', async (_, kind) => {
    const idempotencyKey = randomUUID()
    const headers = await signFor(kind, idempotencyKey)
    await sandbox.setFaults([{ ...status(429), times: 2 }])
    const allDown: Seen = {
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
  ])('at an ambiguous failure of the second deployment: %s', async (_, kind) => {
    const idempotencyKey = randomUUID()
    const headers = await signFor(kind, idempotencyKey)
    await sandbox.setFaults([
      { ...status(429), route: kind.routes[0] },
      { fault: 'resetAfterRead', route: kind.routes[1] },
    ])
    const unknown: Seen = {
      ...staysUnknown(kind),
      calls: kind.routes,
      attempts: ['failed_definite', 'failed_ambiguous'],
    }
    expect(await send(kind, idempotencyKey, headers)).toEqual(unknown)
    expect(await send(kind, idempotencyKey, headers)).toEqual({ ...unknown, calls: [] })
  })

  test('when the authorization has no time left for another call and its settlement', async () => {
    const kind = chatWith(SLOW)
    const [first] = kind.routes
    await sandbox.setFaults([{ ...status(429), route: first }])
    expect(await pay(kind, randomUUID(), deadlineAfterCall())).toEqual(failsOver(kind))
    await sandbox.setFaults([{ ...status(429), route: first }])
    vendors.hold()
    const calls = await callCount()
    const paying = pay(kind, randomUUID(), deadlineAfterCall())
    await until(async () => (await callCount()) > calls)
    await letPass(100)
    vendors.release()
    expect(await paying).toEqual({
      ...uncharged(503, 'provider_unavailable', 'new_payment'),
      calls: [first],
      attempts: ['failed_definite'],
    })
  })
})

describe('a model that no deployment serves', () => {
  const chatBody = { model: UNSERVED, messages: [{ role: 'user', content: 'x' }], max_tokens: 10 }
  const requests: readonly (readonly [string, Record<string, unknown>])[] = [
    ['/v1/chat/completions', chatBody],
    ['/v1/messages', chatBody],
    ['/v1/images/generations', { model: IMAGE, prompt: 'A tram' }],
  ]

  test('is neither listed nor priced, and a category without a model is not listed either', async () => {
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
    // The image model's id begins with the text model's, so ids are looked for in their quotes.
    for (const text of answers) for (const id of [UNSERVED, IMAGE]) expect(text).not.toContain(`"${id}"`)
  })

  test.each(requests)('is a 503 before it is quoted: %s', async (path, body) => {
    const idempotencyKey = randomUUID()
    const answer = await sandbox.post(path, body, { idempotencyKey })
    expect(answer.status).toBe(503)
    expect(answer.headers.get('payment-required')).toBeNull()
    expect(await answer.json()).toMatchObject({
      error: { code: 'model_unavailable', param: 'model', payment: 'none' },
    })
    expect(await sandbox.sql('SELECT 1 FROM idempotency_keys WHERE idempotency_key = $1', [idempotencyKey])).toEqual([])
  })

  test('is told of after a key that another request has, as is everything that has no price', async () => {
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
