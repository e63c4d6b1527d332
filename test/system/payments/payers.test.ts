import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pLimit from 'p-limit'
import { maxUint256 } from 'viem'
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { type SdkFacilitator, startSdkFacilitator } from '../../support/chain/sdk-facilitator.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { countedClient, paidByPayer } from '../../support/payer/counted-client.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import { signPermit } from '../../support/payer/sign-permit.ts'
import { isRunning } from '../../support/processes/is-running.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const CALLS = 20
const CALLS_AT_ONCE = 16
const AMPLE_ATOMIC = 10_000_000n
/** Returns the body that approves Permit2 for the owner's first permit. */
async function allowanceBody({ account, address }: Payer): Promise<string> {
  const deadline = secondsFromNow(3600)
  const terms = { owner: address, spender: DEVNET_ADDRESSES.permit2, amount: maxUint256, nonce: 0n, deadline }
  const signature = await signPermit(account, terms)
  return JSON.stringify({
    permit: { owner: address, value: maxUint256.toString(), deadline: deadline.toString(), signature },
  })
}
const keyHeader = () => ({ 'x-idempotency-key': randomUUID() })
/** Long enough that a live worker always renews in time. */
const LEASE_SECONDS = 60
const CHAT = { model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 2000 }
function settledAmount(answer: Response): string {
  const header = answer.headers.get('payment-response')
  return (JSON.parse(Buffer.from(header ?? '', 'base64').toString()) as { amount: string }).amount
}

/** The sandbox of the group of tests that runs. */
let sandbox: TestSandbox

const postAllowance = (body: string, baseUrl = sandbox.info.baseUrl) =>
  fetch(`${baseUrl}/v1/allowances`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
const payingClient = (payer: Payer, apis?: number) => countedClient(sandbox, payer, apis)
const paidBy = (payer: Payer) => paidByPayer(sandbox, payer)

describe('payers without gas', () => {
  beforeAll(async () => {
    sandbox = await startTestSandbox({ apis: 4 })
  })

  afterAll(() => sandbox.stop())

  describe('a wallet with USDC and without gas', () => {
    it('pays its first call with the official client as it is, by a permit of exactly the maximum beside an offer of a lasting one', async () => {
      const payer = await createPayer(sandbox.info.rpcUrl)
      const client = payingClient(payer)
      const url = `${sandbox.info.baseUrl}/v1/chat/completions`
      const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(CHAT) }
      const asked = await fetch(url, { ...init, headers: { ...init.headers, ...keyHeader() } })
      const required = JSON.parse(Buffer.from(asked.headers.get('payment-required') ?? '', 'base64').toString()) as {
        accepts: readonly { readonly amount: string }[]
        extensions: { eip2612GasSponsoring: { info: object } }
      }
      expect(required.extensions.eip2612GasSponsoring.info).toMatchObject({ lasting: true })
      const answer = await client.fetch(url, { ...init, headers: { ...init.headers, ...keyHeader() } })
      expect(answer.status).toBe(200)
      expect(client.statuses).toEqual({ 402: 1, 200: 1 })
      const left = BigInt(required.accepts[0]?.amount ?? 0) - BigInt(settledAmount(answer))
      expect(await sandbox.chain.permit2Allowance(payer.address)).toBe(left)
    })
  })

  it('a wallet that stored one permit pays for 20 transcriptions, 16 at once from the first on, and nothing else', async () => {
    const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: AMPLE_ATOMIC })
    expect((await postAllowance(await allowanceBody(payer))).status).toBe(200)
    // The official client signs a permit of exactly its maximum for each call as long as the chain has no allowance.
    const client = payingClient(payer, 4)
    const body = JSON.stringify({ model: 'speechvendor/scribe-v2', audio_base64: sandbox.sample.toString('base64') })
    const limit = pLimit(CALLS_AT_ONCE)
    const transcribe = () =>
      client.fetch(`${sandbox.info.baseUrl}/v1/audio/transcriptions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...keyHeader() },
        body,
      })
    const answers = await Promise.all(Array.from({ length: CALLS }, () => limit(transcribe)))
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    expect(client.statuses).toEqual({ 402: CALLS, 200: CALLS })
    expect(await paidBy(payer)).toEqual({ charged: CALLS, transfers: CALLS, permits: 1 })
    expect(await sandbox.chain.permit2Allowance(payer.address)).toBeGreaterThan(maxUint256 / 2n)
    expect(await sandbox.chain.client.getBalance({ address: payer.address })).toBe(0n)
  })

  it('a stored permit outlives API and worker that are killed before its charge is settled, and is used once', async () => {
    const payer = await createPayer(sandbox.info.rpcUrl)
    const body = await allowanceBody(payer)
    // Two APIs that get the same permit at the same time give one answer.
    const stored = await Promise.all(sandbox.info.baseUrls.map((baseUrl) => postAllowance(body, baseUrl)))
    expect(new Set(await Promise.all(stored.map((answer) => answer.text()))).size).toBe(1)
    const client = payingClient(payer, 4)
    const init = {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...keyHeader() },
      body: JSON.stringify(CHAT),
    }
    process.kill(sandbox.pidOf('worker'), 'SIGSTOP')
    const cut = client.fetch(`${sandbox.info.baseUrl}/v1/chat/completions`, init).then(
      ({ status }) => status,
      () => 'cut',
    )
    await until(async () => (await sandbox.sql('SELECT 1 FROM jobs WHERE payer = $1', [payer.address])).length === 1)
    process.kill(sandbox.pidOf('worker'), 'SIGKILL')
    process.kill(sandbox.pidOf('api'), 'SIGKILL')
    await Promise.all([sandbox.restart('api'), sandbox.restart('worker')])
    await cut
    const answer = await until(async () => {
      const again = await client.fetch(`${sandbox.info.baseUrl}/v1/chat/completions`, init)
      return again.status === 200 ? again : null
    })
    expect(answer.status).toBe(200)
    expect(await paidBy(payer)).toEqual({ charged: 1, transfers: 1, permits: 1 })
  })
})

describe('a service without a settlement contract', () => {
  beforeAll(async () => {
    sandbox = await startTestSandbox({ settlementContract: false })
  })

  afterAll(() => sandbox.stop())

  it('refuses to store a permit, and is paid one call after another with permits of exactly the maximum', async () => {
    const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: AMPLE_ATOMIC })
    const answer = await postAllowance(await allowanceBody(payer))
    expect([answer.status, await answer.json()]).toMatchObject([409, { error: { code: 'permits_not_stored' } }])
    const client = payingClient(payer)
    for (let call = 0; call < 3; call += 1) {
      const headers = { 'content-type': 'application/json', ...keyHeader() }
      const paid = await client.fetch(`${sandbox.info.baseUrl}/v1/chat/completions`, {
        method: 'POST',
        headers,
        body: JSON.stringify(CHAT),
      })
      expect(paid.status).toBe(200)
    }
    expect(await paidBy(payer)).toMatchObject({ charged: 3, transfers: 3 })
    expect(await sandbox.sql('SELECT 1 FROM stored_permits')).toEqual([])
  })
})

describe('settlement through a facilitator', () => {
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

  test('an API starts once its facilitator answers, and names the setting until then', async () => {
    facilitator.setFault('/supported', { kind: 'status', status: 500 })
    process.kill(sandbox.pidOf('api'), 'SIGTERM')
    const started = sandbox.restart('api')
    const logPath = join(sandbox.directory, 'logs', 'api.log')
    await until(async () =>
      (await readFile(logPath, 'utf8')).includes('FACILITATOR_URL: this process waits for the facilitator'),
    )
    facilitator.setFault('/supported', null)
    await started
    await until(async () => (await fetch(`${sandbox.info.baseUrl}/readyz`)).status === 200)
  })
})
