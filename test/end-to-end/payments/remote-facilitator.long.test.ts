import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { type SdkFacilitator, startSdkFacilitator } from '../../support/chain/sdk-facilitator.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { isRunning } from '../../support/processes/is-running.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

/** Long enough that a live worker always renews in time. */
const LEASE_SECONDS = 60

let facilitator: SdkFacilitator
let facilitatorNode: RpcProxy
/** Injects faults between the service and the facilitator. */
let facilitatorLink: TcpFaultProxy
let sandbox: TestSandbox
beforeAll(async () => {
  sandbox = await startTestSandbox({
    startFacilitator: async ({ rpcUrl, privateKey }) => {
      facilitatorNode = await startRpcProxy(rpcUrl)
      facilitator = await startSdkFacilitator(facilitatorNode.url, privateKey)
      facilitatorLink = await startTcpFaultProxy({ host: '127.0.0.1', port: Number(new URL(facilitator.url).port) })
      return `http://127.0.0.1:${facilitatorLink.port}`
    },
    // Short, so that a caller is answered while the facilitator hangs; the others repeat their request.
    apiEnvironment: { HOLD_SECONDS: '2' },
    workerEnvironment: {
      LEASE_SECONDS: String(LEASE_SECONDS),
      SWEEP_SECONDS: '0.2',
      FACILITATOR_TIMEOUT_SECONDS: '60',
    },
  })
})
afterEach(() => {
  for (const path of ['/verify', '/settle'] as const) facilitator.setFault(path, null)
  facilitatorNode.setFault(null)
})
afterAll(async () => {
  await sandbox.stop()
  await facilitatorLink.stop()
  await facilitator.stop()
  await facilitatorNode.stop()
})

const CHAT = { model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 2000 }
const transfers = () => sandbox.chain.transfersTo(sandbox.info.payTo)
const settleRequests = () => facilitator.requests.filter((path) => path === '/settle').length

const chat = (idempotencyKey: string, headers: Record<string, string> = {}) =>
  sandbox.post('/v1/chat/completions', CHAT, { idempotencyKey, headers })

/** Repeats the request as long as the answer says that the work is in progress. */
const chatUntilFinal = (idempotencyKey: string, headers: Record<string, string>) =>
  until(async () => {
    const answer = await chat(idempotencyKey, headers)
    const isInProgress = /"code":"(request_in_progress|settlement_pending)"/.test(await answer.clone().text())
    return answer.status === 503 && isInProgress ? null : answer
  })

function settledAmount(answer: Response): string {
  const header = answer.headers.get('payment-response')
  return (JSON.parse(Buffer.from(header ?? '', 'base64').toString()) as { amount: string }).amount
}

test('verifies and settles a paid call through the facilitator, for exactly the measured charge', async () => {
  const idempotencyKey = randomUUID()
  const challenge = await chat(idempotencyKey)
  const headers = await sandbox.payer.sign(challenge)
  const before = await transfers()
  const answer = await chatUntilFinal(idempotencyKey, headers)
  expect(answer.status).toBe(200)
  const [transfer, ...others] = (await transfers()).slice(before.length)
  expect(others).toEqual([])
  expect(transfer?.valueAtomic.toString()).toBe(settledAmount(answer))
  const [job] = await sandbox.sql<{ charge_amount: string; quoted_maximum: string; settled_by: string }>(
    `SELECT jobs.charge_amount, quoted_maximum, settled_by FROM jobs JOIN settlements ON job_id = jobs.id
     WHERE idempotency_key = $1`,
    [idempotencyKey],
  )
  expect(job).toMatchObject({ charge_amount: transfer?.valueAtomic.toString(), settled_by: 'remote_facilitator' })
  expect(BigInt(job?.charge_amount ?? 0)).toBeLessThan(BigInt(job?.quoted_maximum ?? 0))
  const replay = await chat(idempotencyKey, headers)
  expect(await replay.text()).toBe(await answer.text())
  expect(await transfers()).toHaveLength(before.length + 1)
})

test('charges once when the facilitator’s settle answer is lost', async () => {
  const idempotencyKey = randomUUID()
  const headers = await sandbox.payer.sign(await chat(idempotencyKey))
  const before = [(await transfers()).length, settleRequests()] as const
  facilitator.setFault('/settle', { kind: 'lost_answer' }, 1)
  const answer = await chatUntilFinal(idempotencyKey, headers)
  expect(answer.status).toBe(200)
  expect([(await transfers()).length, settleRequests()]).toEqual([before[0] + 1, before[1] + 1])
})

test('answers 503 settlement_pending while the facilitator hangs, then returns the result, charged once', async () => {
  const idempotencyKey = randomUUID()
  const headers = await sandbox.payer.sign(await chat(idempotencyKey))
  const before = (await transfers()).length
  facilitator.setFault('/settle', { kind: 'hang' })
  const requests = settleRequests()
  const first = chat(idempotencyKey, headers)
  await until(() => settleRequests() > requests)
  const held = await chat(idempotencyKey, headers)
  expect([(await first).status, held.status]).toEqual([503, 503])
  expect(await held.json()).toMatchObject({ error: { code: 'settlement_pending', payment: 'unknown' } })
  expect(await transfers()).toHaveLength(before)
  facilitator.setFault('/settle', null)
  // Cuts the hanging connections, as a restart of the facilitator would.
  await facilitatorLink.setFault({ kind: 'refuse' })
  await facilitatorLink.setFault(null)
  const answer = await chatUntilFinal(idempotencyKey, headers)
  expect(answer.status).toBe(200)
  expect(await transfers()).toHaveLength(before + 1)
})

test('finds the transfer in the chain’s log when the worker is killed after the facilitator has settled', async () => {
  const idempotencyKey = randomUUID()
  const headers = await sandbox.payer.sign(await chat(idempotencyKey))
  const before = [(await transfers()).length, settleRequests()] as const
  // The facilitator broadcasts but cannot read its receipt: the worker is killed while it waits for the answer.
  facilitatorNode.setFault({ kind: 'hang' }, 'eth_getTransactionReceipt')
  const held = chat(idempotencyKey, headers)
  await until(async () => (await transfers()).length > before[0])
  process.kill(sandbox.pidOf('worker'), 'SIGKILL')
  await until(() => !isRunning(sandbox.pidOf('worker')))
  await sandbox.sql(
    `UPDATE jobs SET lease_expires_at = lease_expires_at - make_interval(secs => $1),
       enqueued_at = enqueued_at - make_interval(secs => $1) WHERE state = 'settling'`,
    [LEASE_SECONDS],
  )
  await sandbox.restart('worker')
  await held
  const answer = await chatUntilFinal(idempotencyKey, headers)
  expect(answer.status).toBe(200)
  expect([(await transfers()).length, settleRequests()]).toEqual([before[0] + 1, before[1] + 1])
})

test('answers 503 to a valid payment, which stays usable, while the facilitator or its node is down', async () => {
  const idempotencyKey = randomUUID()
  const headers = await sandbox.payer.sign(await chat(idempotencyKey))
  const before = (await transfers()).length
  const expectUnavailable = async () => {
    const answer = await chat(idempotencyKey, headers)
    expect(answer.status).toBe(503)
    expect(await answer.json()).toMatchObject({ error: { code: 'payment_network_unavailable', payment: 'none' } })
  }
  facilitator.setFault('/verify', { kind: 'status', status: 502 })
  await expectUnavailable()
  facilitator.setFault('/verify', null)
  facilitatorNode.setFault({ kind: 'status', status: 500 })
  await expectUnavailable()
  facilitatorNode.setFault(null)
  expect((await chatUntilFinal(idempotencyKey, headers)).status).toBe(200)
  expect(await transfers()).toHaveLength(before + 1)
})

test('an API does not start without its facilitator, and names the setting', async () => {
  facilitator.setFault('/supported', { kind: 'status', status: 500 })
  process.kill(sandbox.pidOf('api'), 'SIGTERM')
  await expect(sandbox.restart('api')).rejects.toThrow(
    'the facilitator of FACILITATOR_URL does not answer GET /supported',
  )
  facilitator.setFault('/supported', null)
  await sandbox.restart('api')
  await until(async () => (await fetch(`${sandbox.info.baseUrl}/readyz`)).status === 200)
})
