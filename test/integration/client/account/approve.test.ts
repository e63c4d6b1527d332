import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createFarebox, type Farebox, type FareboxOptions, walletFromPrivateKey } from '../../../../client/farebox.ts'
import { createPayer, type Payer, type PayerOptions } from '../../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())

const chat = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Hello.' }], max_tokens: 20 } as const

async function openFor(
  options: PayerOptions,
  changes: Partial<FareboxOptions> = {},
): Promise<{ farebox: Farebox; payer: Payer }> {
  const payer = await createPayer(sandbox.info.rpcUrl, options)
  const wallet = walletFromPrivateKey(payer.privateKey)
  const farebox = await createFarebox({ wallet, baseUrl: sandbox.info.baseUrl, journal: 'memory', ...changes })
  return { farebox, payer }
}

const permitsOf = ({ address }: Payer) => sandbox.sql('SELECT state FROM sponsored_permits WHERE owner = $1', [address])

describe('approving Permit2', () => {
  it('one signature lets calls run in parallel, and every other approval is free', async () => {
    const { farebox, payer } = await openFor({})
    expect(await farebox.allowance()).toMatchObject({ allowance: 0n, balance: 1_000_000n, isApproved: false })
    const approvals = await Promise.all([farebox.approve(), farebox.approve(), farebox.approve()])
    expect(approvals.map(({ outcome }) => outcome)).toEqual(['approved', 'already_approved', 'already_approved'])
    expect(approvals[0]?.transaction).toMatch(/^0x[0-9a-f]{64}$/)
    expect(await permitsOf(payer)).toEqual([{ state: 'confirmed' }])
    expect((await farebox.allowance()).isApproved).toBe(true)
    const answers = await Promise.all([farebox.chat.create(chat), farebox.chat.create(chat)])
    expect(answers.every(({ payment }) => payment.verified === 'passed')).toBe(true)
    expect(await farebox.approve()).toMatchObject({ outcome: 'already_approved', transaction: null })
    expect(await sandbox.chain.client.getBalance({ address: payer.address })).toBe(0n)
  })

  it('a wallet with too little USDC is told how much is missing, and signs nothing', async () => {
    const { farebox, payer } = await openFor({ usdcAtomic: 50_000n })
    await expect(farebox.approve()).rejects.toMatchObject({
      name: 'ApprovalRefused',
      code: 'owner_balance_too_low',
      problem: 'The wallet has 0.05 USDC, and the service pays for an approval from 0.1 USDC on.',
      money: 'none',
      retryAfterMs: null,
    })
    expect(await permitsOf(payer)).toEqual([])
  })

  it('a second permit within a day is refused with the time of the next', async () => {
    const { farebox } = await openFor({})
    await farebox.approve({ value: '0.2' })
    const refused = farebox.approve({ value: '0.5' })
    await expect(refused).rejects.toMatchObject({ name: 'ApprovalRefused', code: 'owner_allowance_limit' })
    const { retryAfterMs, advice } = (await refused.catch((error: unknown) => error)) as {
      retryAfterMs: number
      advice: string
    }
    expect(retryAfterMs).toBeGreaterThan(3_600_000)
    expect(advice).toMatch(/^Approve again in \d+ h; otherwise /)
  })

  it('an approval whose answer was lost is repeated without another transaction', async () => {
    let isLost = false
    const { farebox, payer } = await openFor(
      {},
      {
        fetch: async (input, init) => {
          const answer = await fetch(input, init)
          if (init?.method !== 'POST' || isLost) return answer
          isLost = true
          throw new TypeError('fetch failed')
        },
      },
    )
    const waits: string[] = []
    const { outcome, transaction } = await farebox.approve({ onWait: ({ code }) => waits.push(code) })
    expect(outcome).toBe('approved')
    expect(waits).toEqual(['connection_lost'])
    expect(transaction).toMatch(/^0x/)
    expect(await permitsOf(payer)).toEqual([{ state: 'confirmed' }])
  })
})

describe('the balance', () => {
  it('the service and a node say the same, and only the node knows ETH', async () => {
    const { farebox, payer } = await openFor({})
    const { rpcUrl, baseUrl } = sandbox.info
    const wallet = walletFromPrivateKey(payer.privateKey)
    const byNode = await createFarebox({ wallet, baseUrl, rpcUrl, journal: 'memory' })
    const common = { address: payer.address, network: 'eip155:8453', usdc: 1_000_000n, allowance: 0n }
    expect(await farebox.balance()).toEqual({ ...common, native: null, source: 'service' })
    expect(await byNode.balance()).toEqual({ ...common, native: 0n, source: 'rpc' })
  })

  it('a node that does not answer is an error without the URL’s path', async () => {
    const { farebox } = await openFor({}, { rpcUrl: 'http://127.0.0.1:9/secret-key' })
    const error = await farebox.balance().catch((each: unknown) => each as Error)
    expect(error).toMatchObject({ code: 'rpc_unavailable' })
    expect((error as Error).message).not.toContain('secret-key')
    expect(String((error as Error).stack)).not.toContain('secret-key')
  })
})
