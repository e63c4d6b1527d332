import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { challengeOf, paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const PATH = '/v1/chat/completions'
const MAXIMAL = { model: 'textmodel-2.5-pro', max_tokens: 65_536 }
const SLOW = 'take your time'

let sandbox: TestSandbox
beforeAll(async () => {
  sandbox = await startTestSandbox()
  await sandbox.setFaults([{ fault: 'none', times: 'always', containing: SLOW, delayMs: 3000 }])
})
afterAll(() => sandbox.stop())

const newPayer = (usdcAtomic: bigint) => createPayer(sandbox.info.rpcUrl, { usdcAtomic, approved: true })
/** Signs a chat, and returns the function that sends it and reads the answer. */
async function signed(
  payer: Payer,
  text: string,
  fields: Record<string, unknown> = {},
  idempotencyKey: string = randomUUID(),
) {
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
/** Creates a payer who moved the money while the vendor worked, and the function that signs that call again. */
async function newDebtor() {
  const debtor = await newPayer(700_000n)
  const key = randomUUID()
  const call = () => signed(debtor, `${SLOW} and write 3000 words`, MAXIMAL, key)
  const answered = (await call())()
  await vendorWorksFor(debtor)
  await debtor.spendAll()
  expect(await answered).toMatchObject({ status: 402 })
  return { debtor, key, call }
}

describe('a payer without a history', () => {
  it('gets 429 for a second call of the highest price while the first one is open, and is served after it', async () => {
    const payer = await newPayer(2_000_000n)
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

  it('gets 409 while they owe for a call, with the key of that call, and is served once it is paid', async () => {
    const { debtor, key, call } = await newDebtor()
    await mintUsdc(sandbox.info.rpcUrl, debtor.address, 700_000n)
    expect(await (await signed(debtor, 'Hello'))()).toMatchObject({
      status: 409,
      code: 'unpaid_debt',
      message: expect.stringContaining(`First repeat the request with x-idempotency-key "${key}"`),
    })
    expect(await (await call())()).toMatchObject({ status: 200 })
    expect(await (await signed(debtor, 'Hello'))()).toMatchObject({ status: 200 })
  })

  it('is counted under the network that they call from, which is forgotten once a call is paid', async () => {
    await newDebtor()
    const networks = await sandbox.sql(
      "SELECT DISTINCT state = 'completed' AS is_paid, client_network AS network FROM jobs ORDER BY 1",
    )
    expect(networks).toEqual([
      { is_paid: false, network: '127.0.0.0/24' },
      { is_paid: true, network: null },
    ])
  })
})
