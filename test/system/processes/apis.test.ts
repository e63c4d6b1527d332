import { randomUUID } from 'node:crypto'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { type AnswerGate, startAnswerGate } from '../../support/http/answer-gate.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import {
  chatBody,
  payChat,
  payChatPatiently,
  type SignedChat,
  sendChat,
  signChat,
  upstreamCallsByKey,
} from '../../support/payer/chat-call.ts'
import { challengeOf, paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const PATH = '/v1/chat/completions'
/** What earlier versions sent `102 Processing` at this interval with. */
const EARLIER_SETTING = { INTERIM_ANSWER_SECONDS: '0.1' }
/** Many of these intervals. */
const HELD_MS = 1000

/** Sends a signed chat over a socket of its own, and returns all that the server writes. */
async function sendOverSocket(version: string, baseUrl: string, chat: SignedChat): Promise<string> {
  const { hostname, port, host } = new URL(baseUrl)
  const body = JSON.stringify(chatBody(chat.idempotencyKey, chat.isLong))
  const headers = {
    host,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'x-idempotency-key': chat.idempotencyKey,
    connection: 'close',
    ...chat.headers,
  }
  const socket = connect(Number(port), hostname)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  socket.write(`POST ${PATH} HTTP/${version}\r\n${lines.join('\r\n')}\r\n\r\n${body}`)
  let answer = ''
  for await (const piece of socket) answer += (piece as Buffer).toString()
  return answer
}

/** Returns how long a new report of readiness takes. */
async function reportMs(baseUrl: string): Promise<number> {
  // A report is reused for a second.
  await delay(1100)
  const startedAt = performance.now()
  expect((await fetch(`${baseUrl}/readyz`)).status).toBe(200)
  return performance.now() - startedAt
}

describe('two APIs', () => {
  let sandbox: TestSandbox
  let payer: Payer
  /** Injects faults between the second API and the node. */
  let rpc: RpcProxy
  /** Injects faults between the second API and PostgreSQL. */
  let ledger: TcpFaultProxy
  /** Holds back the vendors' answers to the worker. */
  let vendors: AnswerGate
  let metricsPort: number
  let ledgerUrl = ''
  let [first, second] = ['', '']
  beforeAll(async () => {
    metricsPort = await findFreePort()
    sandbox = await startTestSandbox({
      apis: 2,
      connections: async (real) => {
        rpc = await startRpcProxy(real.rpcUrl)
        const url = new URL(real.databaseUrl)
        ledger = await startTcpFaultProxy({ host: url.hostname, port: Number(url.port) })
        url.port = String(ledger.port)
        ledgerUrl = url.href
        vendors = await startAnswerGate(real.upstreamUrl)
        return { ...real, upstreamUrl: vendors.url }
      },
      apiEnvironment: EARLIER_SETTING,
      environmentOf: (name): Record<string, string> =>
        name === 'api-2'
          ? {
              RPC_URL: rpc.url,
              RPC_TIMEOUT_MS: String(PATIENCE_MS),
              METRICS_PORT: String(metricsPort),
              DATABASE_URL: ledgerUrl,
            }
          : {},
    })
    ;[first = '', second = ''] = sandbox.info.baseUrls
    payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
  })

  afterEach(() => vendors.release())

  afterAll(async () => {
    await sandbox.stop()
    await rpc.stop()
    await ledger.stop()
    await vendors.stop()
  })

  const untilUpstreamIsCalled = ({ idempotencyKey }: SignedChat) =>
    until(async () => (await upstreamCallsByKey(sandbox.info)).has(idempotencyKey))
  /** Returns whether a caller waits at the second API. */
  async function isSecondHolding(): Promise<boolean> {
    const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()
    return /^farebox_load\{of="held_connections"\} 1$/m.test(metrics)
  }
  async function expectOneCharge({ idempotencyKey }: SignedChat, transaction: string): Promise<void> {
    expect((await upstreamCallsByKey(sandbox.info)).get(idempotencyKey)).toBe(1)
    const transfers = await sandbox.chain.transfersTo(sandbox.info.payTo)
    expect(transfers.filter(({ transactionHash }) => transactionHash === transaction)).toHaveLength(1)
    const settlements = await sandbox.sql(
      'SELECT 1 FROM settlements JOIN jobs ON jobs.id = job_id WHERE idempotency_key = $1',
      [idempotencyKey],
    )
    expect(settlements).toHaveLength(1)
  }
  test('a challenge of one API can be paid at the other, and both replay the same bytes with the same receipt', async () => {
    const chat = await signChat(first, payer)
    const paid = await payChat(second, chat)
    expect(paid).toMatchObject({ status: 200, receiptId: expect.stringMatching(/^[0-9a-f-]{36}$/) })
    const fresh = await signChat(first, payer, { idempotencyKey: chat.idempotencyKey })
    for (const [baseUrl, again] of [
      [first, chat],
      [second, chat],
      [first, fresh],
      [second, fresh],
    ] as const)
      expect(await payChat(baseUrl, again)).toEqual(paid)
    await expectOneCharge(chat, paid.transaction)
  })

  test('a signed request waits for the job that the other API accepted', async () => {
    const chat = await signChat(first, payer)
    vendors.hold()
    const accepted = payChat(first, chat)
    await untilUpstreamIsCalled(chat)
    const attaching = payChat(second, chat)
    await until(isSecondHolding)
    vendors.release()
    const attached = await attaching
    expect(attached.status).toBe(200)
    expect(await accepted).toEqual(attached)
    await expectOneCharge(chat, attached.transaction)
  })

  test.each(['1.0', '1.1'])('a caller over HTTP/%s reads nothing before the final answer', async (version) => {
    const chat = await signChat(first, payer)
    vendors.hold()
    const sent = sendOverSocket(version, first, chat)
    await untilUpstreamIsCalled(chat)
    await delay(HELD_MS)
    vendors.release()
    const answer = await sent
    expect(answer.match(/^HTTP\/\d\.\d \d{3}/gm)).toEqual(['HTTP/1.1 200'])
    expect(answer).toContain('"object":"chat.completion"')
  })

  test('a duplicate that is verified only after the first was settled returns the same result', async () => {
    const chat = await signChat(first, payer)
    const settled = Promise.withResolvers<void>()
    rpc.setFault({ kind: 'held', until: settled.promise }, 'eth_call')
    const late = payChat(second, chat)
    await until(() => rpc.calls.at(-1) === 'eth_call')
    const paid = await payChat(first, chat)
    expect(paid.status).toBe(200)
    settled.resolve()
    expect(await late).toEqual(paid)
    rpc.setFault(null)
    await expectOneCharge(chat, paid.transaction)
  })

  test('/readyz does not wait for a node that accepts calls and never answers', async () => {
    await reportMs(second)
    rpc.setFault({ kind: 'hang' })
    // A check that asked the node would take two seconds each time.
    expect(Math.min(await reportMs(second), await reportMs(second), await reportMs(second))).toBeLessThan(1500)
    rpc.setFault(null)
  })

  test('a caller gets 503 database_unavailable while PostgreSQL accepts connections and never answers', async () => {
    const chat = await signChat(first, payer)
    // The open connections break, as after their idle time, and the new ones get no answer.
    await ledger.setFault({ kind: 'refuse' })
    await ledger.setFault({ kind: 'blackhole' })
    const [unpaid, paid] = await Promise.all([sendChat(second, randomUUID()), payChat(second, chat)])
    const expected = { status: 503, code: 'database_unavailable', retry: 'same_request', payment: 'unknown' }
    expect([unpaid, paid]).toMatchObject([expected, expected])
    await ledger.setFault(null)
    const [last] = (await payChatPatiently([second], chat)).toReversed()
    expect(last?.status).toBe(200)
    await expectOneCharge(chat, last?.transaction ?? '')
  })

  test('an unpaid request does not reveal at either API whether its key has a job', async () => {
    const chat = await signChat(first, payer)
    const before = await sendChat(second, chat.idempotencyKey)
    expect((await payChat(first, chat)).status).toBe(200)
    for (const baseUrl of [first, second]) {
      const { status, body } = await sendChat(baseUrl, chat.idempotencyKey)
      expect({ status, members: Object.keys(JSON.parse(body) as object) }).toEqual({
        status: before.status,
        members: Object.keys(JSON.parse(before.body) as object),
      })
    }
  })

  test('a key bound at one API answers 409 to another body or payer at the other', async () => {
    const chat = await signChat(first, payer)
    const other = await sendChat(second, chat.idempotencyKey, {}, true)
    expect(other).toMatchObject({ status: 409, code: 'idempotency_key_reused', retry: 'never', payment: 'none' })
    expect(other.response?.headers.get('x-should-retry')).toBe('false')
    const stranger = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: true })
    const theirs = await signChat(second, stranger, { idempotencyKey: chat.idempotencyKey })
    expect((await payChat(first, chat)).status).toBe(200)
    expect(await payChat(second, theirs)).toMatchObject({
      status: 409,
      code: 'idempotency_key_reused',
      payment: 'none',
    })
  })

  test('an authorization used at one API pays for no other key at the other', async () => {
    const chat = await signChat(first, payer)
    const idempotencyKey = randomUUID()
    const { response } = await sendChat(second, idempotencyKey)
    if (response === null) throw new Error('expected a challenge')
    const again = await signCustomPayment(challengeOf(response), payer, { terms: { nonce: chat.nonce } })
    expect((await payChat(first, chat)).status).toBe(200)
    expect(await sendChat(second, idempotencyKey, paymentHeader(again))).toMatchObject({
      status: 409,
      code: 'authorization_already_used',
    })
    expect((await upstreamCallsByKey(sandbox.info)).has(idempotencyKey)).toBe(false)
  })

  test('one authorization sent concurrently for two keys at two APIs serves one, and answers 409 without work to the other', async () => {
    const one = await signChat(first, payer)
    const idempotencyKey = randomUUID()
    const { response } = await sendChat(second, idempotencyKey)
    if (response === null) throw new Error('expected a challenge')
    const other = await signCustomPayment(challengeOf(response), payer, { terms: { nonce: one.nonce } })
    const answers = await Promise.all([payChat(first, one), sendChat(second, idempotencyKey, paymentHeader(other))])
    expect(answers.map(({ status, code }) => `${status} ${code}`).toSorted()).toEqual([
      '200 ',
      '409 authorization_already_used',
    ])
    const calls = await upstreamCallsByKey(sandbox.info)
    expect((calls.get(one.idempotencyKey) ?? 0) + (calls.get(idempotencyKey) ?? 0)).toBe(1)
  })

  test('the other API returns the result, charged once, when an API is killed while its caller waits', async () => {
    const chat = await signChat(first, payer)
    vendors.hold()
    const held = payChat(first, chat)
    await untilUpstreamIsCalled(chat)
    process.kill(sandbox.pidOf('api'), 'SIGKILL')
    expect((await held).status).toBe(0)
    vendors.release()
    const [retried] = (await payChatPatiently([second], chat)).slice(-1)
    expect(retried?.status).toBe(200)
    await sandbox.restart('api')
    expect(await payChat(first, chat)).toEqual(retried)
    await expectOneCharge(chat, retried?.transaction ?? '')
  })
})
