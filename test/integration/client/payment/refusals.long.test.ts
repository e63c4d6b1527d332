import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createFarebox, type Farebox, type FareboxOptions, walletFromPrivateKey } from '../../../../client/farebox.ts'
import { mintUsdc } from '../../../../infra/sandbox/chain/fund-devnet.ts'
import { createPayer, type Payer, type PayerOptions } from '../../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterEach(() => sandbox.setFaults([]))
afterAll(() => sandbox.stop())

const say = (content: string) =>
  ({ model: 'textmodel-2.5-flash', messages: [{ role: 'user', content }], max_tokens: 20 }) as const

async function openFor(
  payerOptions: PayerOptions = {},
  changes: Partial<FareboxOptions> = {},
): Promise<{ farebox: Farebox; payer: Payer }> {
  const { baseUrl, rpcUrl } = sandbox.info
  const payer = await createPayer(rpcUrl, payerOptions)
  const wallet = walletFromPrivateKey(payer.privateKey)
  const budget = { session: '0.5' }
  return { farebox: await createFarebox({ wallet, baseUrl, rpcUrl, journal: 'memory', budget, ...changes }), payer }
}

const spentOf = async ({ address }: Payer, before = 1_000_000n) => before - (await sandbox.chain.usdcBalance(address))
const HALF_USDC = 500_000n

describe('calls of every operation', () => {
  it('each is charged what its receipt and the chain say', async () => {
    const { farebox, payer } = await openFor({ approved: true })
    const answers = [
      await farebox.chat.create(say('Hello.')),
      await farebox.messages.create({ ...say('Hello.') }),
      await farebox.images.create({ model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram.' }),
      await farebox.speech.create({ model: 'speechvendor/flash-v2.5', input: 'Hello.' }),
      await farebox.transcriptions.create({ file: sandbox.sample }),
    ]
    expect(answers.map(({ payment }) => payment.verified)).toEqual(answers.map(() => 'passed'))
    const spend = await farebox.spend()
    expect(spend.rows.map(({ operation, calls }) => [operation, calls])).toEqual([
      ['createChatCompletion', 1],
      ['createImageGeneration', 1],
      ['createMessage', 1],
      ['createSpeech', 1],
      ['createTranscription', 1],
    ])
    expect(spend.charged).toBe(await spentOf(payer))
    expect(farebox.budgetLeft().session).toBe(HALF_USDC - spend.charged)
  })

  it('equal calls at the same time under one key are one call', async () => {
    const { farebox, payer } = await openFor({ approved: true })
    const requestId = randomUUID()
    const calls = Array.from({ length: 5 }, () => farebox.chat.create(say('Once.'), { requestId }))
    const answers = await Promise.all(calls)
    expect(new Set(answers.map(({ payment }) => payment.receiptId)).size).toBe(1)
    expect(answers.filter(({ payment }) => !payment.replayed)).toHaveLength(1)
    expect(HALF_USDC - (farebox.budgetLeft().session ?? 0n)).toBe(await spentOf(payer))
  })
})

describe('calls that the service refuses', () => {
  it('another request under a used key is refused and costs nothing', async () => {
    const { farebox, payer } = await openFor({ approved: true })
    const requestId = randomUUID()
    await farebox.chat.create(say('One.'), { requestId })
    const before = await spentOf(payer)
    const reused = farebox.chat.create(say('Other.'), { requestId })
    await expect(reused).rejects.toMatchObject({ code: 'idempotency_key_reused', money: 'none', key: requestId })
    expect(await spentOf(payer)).toBe(before)
    expect(HALF_USDC - (farebox.budgetLeft().session ?? 0n)).toBe(before)
  })

  it('without an approval and without a node the way to pay is named, and nothing stays reserved', async () => {
    const { farebox } = await openFor({}, { rpcUrl: undefined })
    const refused = farebox.chat.create(say('Hello.'))
    await expect(refused).rejects.toMatchObject({ code: 'permit2_allowance_required', status: 412, money: 'none' })
    await expect(refused).rejects.toThrow(/Approve Permit2 once/)
    expect(farebox.budgetLeft().session).toBe(HALF_USDC)
  })

  it('without an approval parallel calls take turns with permits', async () => {
    const { farebox, payer } = await openFor()
    const calls = Array.from({ length: 4 }, (_, index) => farebox.chat.create(say(`Hello ${index}.`)))
    const answers = await Promise.all(calls)
    expect(new Set(answers.map(({ payment }) => payment.transaction)).size).toBe(4)
    expect((await farebox.spend()).charged).toBe(await spentOf(payer))
  })

  it('an approved wallet pays while its node does not answer', async () => {
    const { farebox } = await openFor({ approved: true }, { rpcUrl: 'http://127.0.0.1:9/secret' })
    const { payment } = await farebox.chat.create(say('Hello.'))
    expect(payment.verified).toBe('passed')
  })

  it('a result past its retention is gone, its call stays paid once, and its receipt is still there', async () => {
    const { farebox, payer } = await openFor({ approved: true })
    const requestId = randomUUID()
    const { payment } = await farebox.chat.create(say('Hello.'), { requestId })
    await sandbox.sql("UPDATE jobs SET finished_at = now() - interval '8 days' WHERE idempotency_key = $1", [requestId])
    const erased = () =>
      sandbox.sql('SELECT 1 FROM jobs WHERE idempotency_key = $1 AND result_body IS NULL', [requestId])
    await expect.poll(erased).toHaveLength(1)
    const before = await spentOf(payer)
    const again = farebox.chat.create(say('Hello.'), { requestId })
    await expect(again).rejects.toMatchObject({ code: 'result_expired', status: 410, money: 'settled' })
    expect(await spentOf(payer)).toBe(before)
    expect((await farebox.verify(payment.receiptId ?? '')).outcome).toBe('passed')
  })

  it('a debt is named, paid for by repeating its call under its key, and then other calls are served', async () => {
    const { farebox, payer } = await openFor({ approved: true, usdcAtomic: 100_000n })
    await sandbox.setFaults([{ fault: 'none', delayMs: 3000 }])
    const requestId = randomUUID()
    const owed = farebox.chat.create(say('Owed.'), { requestId, patienceMs: 0 })
    const failed = owed.catch((error: unknown) => error)
    await expect.poll(async () => (await sandbox.upstreamCalls()).length).toBeGreaterThan(0)
    const calls = async () =>
      await sandbox.sql("SELECT 1 FROM jobs WHERE idempotency_key = $1 AND state = 'generating'", [requestId])
    await expect.poll(calls).toHaveLength(1)
    await payer.spendAll()
    expect(await failed).toMatchObject({ money: expect.stringMatching(/none|unknown|authorized/) })
    await mintUsdc(sandbox.info.rpcUrl, payer.account.address, 100_000n)
    const other = farebox.chat.create(say('Another.'), { patienceMs: 0 })
    await expect(other).rejects.toMatchObject({ code: 'unpaid_debt', money: 'none' })
    const { payment } = await farebox.chat.create(say('Owed.'), { requestId })
    expect(payment.verified).toBe('passed')
    await farebox.chat.create(say('Another.'))
    expect((await farebox.spend()).charged).toBe(await spentOf(payer, 100_000n))
  })
})
