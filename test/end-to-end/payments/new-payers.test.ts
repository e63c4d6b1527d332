import { randomUUID } from 'node:crypto'
import { toHex } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { challengeOf, paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const BLOCKS = 3
const PATH = '/v1/chat/completions'
const MAXIMAL = { model: 'textmodel-2.5-pro', max_tokens: 65_536 }
const SLOW = 'take your time'

let sandbox: TestSandbox
beforeAll(async () => {
  sandbox = await startTestSandbox({ apiEnvironment: { NEW_PAYER_BALANCE_BLOCKS: String(BLOCKS) } })
  await sandbox.setFaults([{ fault: 'none', times: 'always', containing: SLOW, delayMs: 3000 }])
})
afterAll(() => sandbox.stop())

const mine = (blocks: number) => callRpc(sandbox.info.rpcUrl, 'anvil_mine', [toHex(blocks)])
const newPayer = (usdcAtomic: bigint) => createPayer(sandbox.info.rpcUrl, { usdcAtomic, approved: true })
/** Signs a chat, and returns the function that sends it and reads the answer. */
async function signed(payer: Payer, text: string, fields: Record<string, unknown> = {}) {
  const idempotencyKey = randomUUID()
  const messages = [{ role: 'user', content: `${text} ${idempotencyKey}` }]
  const body = { model: 'textmodel-2.5-flash', max_tokens: 40, messages, ...fields }
  const challenge = challengeOf(await sandbox.post(PATH, body, { idempotencyKey }))
  const headers = paymentHeader(await signCustomPayment(challenge, payer))
  return async () => {
    const response = await sandbox.post(PATH, body, { idempotencyKey, headers })
    const { error } = (await response.json()) as { error?: { code: string; message: string } }
    return { status: response.status, retryAfter: response.headers.get('retry-after'), ...error }
  }
}
async function vendorWorksFor(payer: Payer): Promise<void> {
  const sql = "SELECT 1 FROM jobs WHERE payer = $1 AND state = 'generating'"
  await until(async () => (await sandbox.sql(sql, [payer.address])).length > 0)
}

describe('a payer without a history', () => {
  it('gets 429 while their money is new, and is served with the same signature once it has been there for some blocks', async () => {
    const payer = await newPayer(10_000n)
    await payer.spendAll()
    await mine(BLOCKS)
    await mintUsdc(sandbox.info.rpcUrl, payer.address, 10_000n)
    const calls = (await sandbox.upstreamCalls()).length
    const send = await signed(payer, 'Hello')
    expect(await send()).toMatchObject({
      status: 429,
      code: 'funds_too_new',
      retryAfter: '8',
      message: expect.stringMatching(
        /^The payer had 0 USDC 6 seconds ago; 0\.002 USDC are needed .* retry in 8 seconds\.$/,
      ),
    })
    expect((await sandbox.upstreamCalls()).length).toBe(calls)
    await mine(BLOCKS)
    expect(await send()).toMatchObject({ status: 200 })
  })

  it('gets 429 for a second call of the highest price while the first one is open, and is served after it', async () => {
    const payer = await newPayer(2_000_000n)
    await mine(BLOCKS)
    const [first, second] = [await signed(payer, SLOW, MAXIMAL), await signed(payer, 'Hello', MAXIMAL)]
    const served = first()
    await vendorWorksFor(payer)
    expect(await second()).toMatchObject({
      status: 429,
      code: 'open_exposure_limit',
      retryAfter: '2',
      message: expect.stringContaining('at most 0.766952 USDC may be open'),
    })
    expect(await served).toMatchObject({ status: 200 })
    expect(await second()).toMatchObject({ status: 200 })
  })

  it('gets 409 for money of a payer who owes, which names that payer, and is served with other money', async () => {
    const [debtor, next] = [await newPayer(700_000n), await newPayer(1n)]
    await mine(BLOCKS)
    const robbed = await signed(debtor, `${SLOW} and write 3000 words`, MAXIMAL)
    const answered = robbed()
    await vendorWorksFor(debtor)
    await debtor.spend(700_000n, next.address)
    expect(await answered).toMatchObject({ status: 402 })
    await mine(BLOCKS)
    const send = await signed(next, 'Hello')
    expect(await send()).toMatchObject({
      status: 409,
      code: 'sender_owes_debt',
      message: expect.stringContaining(debtor.address),
    })
    await mintUsdc(sandbox.info.rpcUrl, next.address, 100_000n)
    await mine(BLOCKS)
    expect(await send()).toMatchObject({ status: 200 })
  })

  it('is counted under the network that they call from, which is forgotten once a call is paid', async () => {
    const networks = await sandbox.sql(
      "SELECT DISTINCT state = 'completed' AS is_paid, client_network AS network FROM jobs ORDER BY 1",
    )
    expect(networks).toEqual([
      { is_paid: false, network: '127.0.0.0/24' },
      { is_paid: true, network: null },
    ])
  })
})
