import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createFarebox, type Farebox, walletFromPrivateKey } from '../../../../client/farebox.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { CHAT } from './support/open-client.ts'

const MINUTE_MS = 60_000

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterEach(() => {
  vi.useRealTimers()
})
afterAll(() => sandbox.stop())

/** Opens a client in a process with another clock. */
async function openAt(minutes: number): Promise<Farebox> {
  shiftClock(minutes)
  const { baseUrl, rpcUrl, payer } = sandbox.info
  const wallet = walletFromPrivateKey(payer.privateKey)
  return await createFarebox({ wallet, baseUrl, rpcUrl, journal: 'memory', budget: { session: '1' } })
}

/** Changes this process's clock only; the service's processes keep theirs. */
function shiftClock(minutes: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + minutes * MINUTE_MS })
}

describe('a clock that is wrong by minutes', () => {
  it.each([-3, 3])('a clock that is wrong by %i minutes pays as any other', async (minutes) => {
    const client = await openAt(minutes)
    const { payment } = await client.chat.create({ ...CHAT, max_tokens: 20 + minutes })
    expect(payment.receiptId).not.toBeNull()
  })

  it.each([
    [30, 'challenge_expired_locally', /clock is 30 min ahead of the server’s/],
    [-30, 'payment_expired', /clock is 30 min behind the server’s/],
  ])(
    'a clock that is wrong by %i minutes is named with the difference, and nothing is charged',
    async (minutes, code, words) => {
      const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
      const client = await openAt(minutes)
      const refused = client.chat.create({ ...CHAT, max_tokens: 30 }, { patienceMs: 0 })
      await expect(refused).rejects.toMatchObject({ code, money: 'none', message: expect.stringMatching(words) })
      expect(client.budgetLeft().session).toBe(1_000_000n)
      expect(await sandbox.chain.usdcBalance(sandbox.payer.address)).toBe(before)
    },
  )
})
