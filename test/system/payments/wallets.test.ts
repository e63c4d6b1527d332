import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createFarebox } from '../../../client/farebox.ts'
import { walletFromAccount } from '../../../client/wallet/wallet-from-private-key.ts'
import { type SdkFacilitator, startSdkFacilitator } from '../../support/chain/sdk-facilitator.ts'
import { startTestSandbox, type TestSandbox, WITHOUT_BUDGETS } from '../../support/processes/test-sandbox.ts'
import { CHAT, CHAT_PATH, payAsWallet, payingWith, transfersOf } from '../../support/wallets/pay-as-wallet.ts'
import { createSafe } from '../../support/wallets/safe-wallet.ts'
import { WALLET_KINDS } from '../../support/wallets/wallet-kinds.ts'

const CALLS_AT_ONCE = 12
let sandbox: TestSandbox

describe('a service with a settlement contract', () => {
  beforeAll(async () => {
    sandbox = await startTestSandbox({ apiEnvironment: WITHOUT_BUDGETS, workerEnvironment: WITHOUT_BUDGETS })
  })
  afterAll(() => sandbox.stop())

  it.each(WALLET_KINDS)('is paid by $name through the official client as it is', async ({ create }) => {
    await payAsWallet(sandbox, await create(sandbox.info.rpcUrl, { approved: true }), CALLS_AT_ONCE)
  })

  it.each(WALLET_KINDS.filter(({ name }) => /MetaMask|1 of 1|passkey/.test(name)))(
    'is paid by $name through the client of farebox',
    async ({ create }) => {
      const wallet = await create(sandbox.info.rpcUrl, { approved: true })
      const { baseUrl } = sandbox.info
      const farebox = await createFarebox({ wallet: walletFromAccount(wallet.account), baseUrl, journal: 'memory' })
      try {
        const answer = await farebox.fetch(`${baseUrl}${CHAT_PATH}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(CHAT),
        })
        expect(answer.status).toBe(200)
      } finally {
        await farebox.close()
      }
      expect(await transfersOf(sandbox, wallet)).toHaveLength(1)
    },
  )

  it('is paid by Safes with the singleton that wallets on rollups have', async () => {
    const wallets = [
      await createSafe(sandbox.info.rpcUrl, { version: '1.3.0', isForLayer2: true, approved: true }),
      await createSafe(sandbox.info.rpcUrl, { version: '1.4.1', isForLayer2: true, approved: true }),
      await createSafe(sandbox.info.rpcUrl, { version: '1.5.0', isForLayer2: true, approved: true }),
    ]
    for (const wallet of wallets) await payAsWallet(sandbox, wallet, 1)
  })

  it('answers a contract wallet without allowance with how to approve Permit2, and not with a permit to sign', async () => {
    const wallet = await createSafe(sandbox.info.rpcUrl)
    const { payer } = payingWith(sandbox, wallet)
    const idempotencyKey = crypto.randomUUID()
    const challenge = await sandbox.post(CHAT_PATH, CHAT, { idempotencyKey })
    // The official client signs a permit for it, which a contract's signature cannot be.
    const answer = await sandbox.post(CHAT_PATH, CHAT, { idempotencyKey, headers: await payer.sign(challenge) })
    const body: unknown = await answer.json()
    expect([answer.status, JSON.stringify(body)]).toEqual([412, expect.stringContaining('approval')])
    expect(await transfersOf(sandbox, wallet)).toEqual([])
  })
})

describe('a service without a settlement contract', () => {
  beforeAll(async () => {
    sandbox = await startTestSandbox({
      settlementContract: false,
      apiEnvironment: WITHOUT_BUDGETS,
      workerEnvironment: WITHOUT_BUDGETS,
    })
  })
  afterAll(() => sandbox.stop())

  it.each(WALLET_KINDS)('is paid by $name', async ({ create }) => {
    await payAsWallet(sandbox, await create(sandbox.info.rpcUrl, { approved: true }), 2)
  })
})

describe('a service whose payments a remote facilitator settles', () => {
  let facilitator: SdkFacilitator
  beforeAll(async () => {
    sandbox = await startTestSandbox({
      startFacilitator: async ({ rpcUrl, privateKey }) => {
        facilitator = await startSdkFacilitator(rpcUrl, privateKey)
        return facilitator.url
      },
      apiEnvironment: WITHOUT_BUDGETS,
      workerEnvironment: WITHOUT_BUDGETS,
    })
  })
  afterAll(async () => {
    await sandbox.stop()
    await facilitator.stop()
  })

  it.each(WALLET_KINDS)('is paid by $name', async ({ create }) => {
    await payAsWallet(sandbox, await create(sandbox.info.rpcUrl, { approved: true }), 1)
  })
})
