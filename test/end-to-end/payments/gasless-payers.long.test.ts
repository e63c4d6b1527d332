import { randomUUID } from 'node:crypto'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI, { toFile } from 'openai'
import pLimit from 'p-limit'
import { maxUint256 } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import { signPermit } from '../../support/payer/sign-permit.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const CALLS = 20
const CALLS_AT_ONCE = 16
const SDK_CALLS = 8
const SDK_CALLS_AT_ONCE = 4
/** More than any call needs on the slowest machine; two are the default and suffice on most. */
const PATIENT_RETRIES = 50
const AMPLE_ATOMIC = 10_000_000n

let sandbox: TestSandbox
beforeAll(async () => {
  sandbox = await startTestSandbox({ apis: 2 })
})
afterAll(() => sandbox.stop())

/** Returns the body that approves Permit2 for the owner's first permit. */
async function allowanceBody({ account, address }: Payer): Promise<string> {
  const deadline = secondsFromNow(3600)
  const terms = { owner: address, spender: DEVNET_ADDRESSES.permit2, amount: maxUint256, nonce: 0n, deadline }
  const signature = await signPermit(account, terms)
  return JSON.stringify({
    permit: { owner: address, value: maxUint256.toString(), deadline: deadline.toString(), signature },
  })
}

const postAllowance = (body: string, baseUrl = sandbox.info.baseUrl) =>
  fetch(`${baseUrl}/v1/allowances`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })

/** Returns the official client of a wallet, and counts its answers by status. */
function payingClient({ privateKey }: Payer) {
  const { rpcUrl, network, baseUrl } = sandbox.info
  const statuses: Record<number, number> = {}
  const counting: typeof fetch = async (input, init) => {
    const request = new Request(input, init)
    const answer = await fetch(request)
    if (request.url.startsWith(baseUrl)) statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
    return answer
  }
  return { ...createPayingClient({ privateKey, rpcUrl, network, fetch: counting }), statuses }
}

const keyHeader = () => ({ 'x-idempotency-key': randomUUID() })

/** Returns how many jobs of a payer were charged, and the transactions that were sent for their permits. */
async function chargedAndSponsored({ address }: Payer) {
  const [row] = await sandbox.sql<{ charged: number; sponsored: number }>(
    `SELECT (SELECT count(*)::int FROM settlements WHERE payer = $1 AND state = 'confirmed') AS charged,
       (SELECT count(*)::int FROM sponsored_permits WHERE owner = $1 AND gas_wei IS NOT NULL) AS sponsored`,
    [address],
  )
  return row
}

describe('a wallet with USDC and without gas', () => {
  it('pays for 20 transcriptions, 16 concurrently, after one approval that costs it nothing', async () => {
    const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: AMPLE_ATOMIC })
    expect((await postAllowance(await allowanceBody(payer))).status).toBe(200)
    const client = payingClient(payer)
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
    expect(await chargedAndSponsored(payer)).toEqual({ charged: CALLS, sponsored: 1 })
    expect(await sandbox.chain.client.getBalance({ address: payer.address })).toBe(0n)
  })

  it.each(['openai', 'anthropic'])(
    '%s: its own retry pays for parallel calls one after the other, without an approval',
    async (sdk) => {
      const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: AMPLE_ATOMIC })
      const client = payingClient(payer)
      const { baseUrl } = sandbox.info
      const settings = { apiKey: 'not-used', fetch: client.fetch, maxRetries: PATIENT_RETRIES }
      const openai = new OpenAI({ ...settings, baseURL: `${baseUrl}/v1` })
      const anthropic = new Anthropic({ ...settings, baseURL: baseUrl })
      const call = async (): Promise<unknown> => {
        const options = { headers: keyHeader() }
        if (sdk === 'anthropic') {
          const messages = [{ role: 'user' as const, content: 'Good evening.' }]
          return await anthropic.messages.create({ model: 'textmodel-3.5-flash', max_tokens: 100, messages }, options)
        }
        const file = await toFile(sandbox.sample, 'last-tram.mp3')
        return await openai.audio.transcriptions.create({ model: 'speechvendor/scribe-v2', file }, options)
      }
      const limit = pLimit(SDK_CALLS_AT_ONCE)
      await Promise.all(Array.from({ length: SDK_CALLS }, () => limit(call)))
      expect(await chargedAndSponsored(payer)).toEqual({ charged: SDK_CALLS, sponsored: 0 })
      console.info(`${sdk}: ${SDK_CALLS} calls, ${SDK_CALLS_AT_ONCE} at once, met ${JSON.stringify(client.statuses)}`)
    },
  )
})

describe('a permit that is sent more than once', () => {
  it('two APIs that get the same permit at the same time cause one transaction and give one answer', async () => {
    const payer = await createPayer(sandbox.info.rpcUrl)
    const body = await allowanceBody(payer)
    const answers = await Promise.all(
      [0, 1, 2, 3].flatMap(() => sandbox.info.baseUrls.map((baseUrl) => postAllowance(body, baseUrl))),
    )
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    expect(new Set(await Promise.all(answers.map((answer) => answer.text()))).size).toBe(1)
    expect(await chargedAndSponsored(payer)).toEqual({ charged: 0, sponsored: 1 })
  })

  it('an API that is killed while it waits loses nothing: the repeated request gets the one transaction', async () => {
    const payer = await createPayer(sandbox.info.rpcUrl)
    const body = await allowanceBody(payer)
    process.kill(sandbox.pidOf('worker'), 'SIGSTOP')
    const cut = postAllowance(body).then(
      (answer) => answer.status,
      () => 'cut',
    )
    await until(async () => {
      const rows = await sandbox.sql('SELECT 1 FROM sponsored_permits WHERE owner = $1', [payer.address])
      return rows.length === 1
    })
    process.kill(sandbox.pidOf('api'), 'SIGKILL')
    expect(await cut).toBe('cut')
    await sandbox.restart('api')
    process.kill(sandbox.pidOf('worker'), 'SIGCONT')
    const repeated = await postAllowance(body)
    const text = await repeated.text()
    expect([repeated.status, text]).toEqual([200, expect.stringContaining('"transaction":"0x')])
    expect(await (await postAllowance(body, sandbox.info.baseUrls[1])).text()).toBe(text)
    expect(await chargedAndSponsored(payer)).toEqual({ charged: 0, sponsored: 1 })
  })
})
