import { concatHex, type Hex, slice, toFunctionSelector } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDelegatingPayer } from '../../support/chain/delegating-payer.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type BatchChain, CHARGE, type Item, itemOf, startBatchChain } from './batch-chain.ts'
import { memoryGas, reasonOfGas, stubProxy, stubProxyWithBytes } from './proxy-stub.ts'

let chain: BatchChain
let payer: Payer
let settleCall: Hex
beforeAll(async () => {
  chain = await startBatchChain()
  payer = await createPayer(chain.rpcUrl, { approved: true, usdcAtomic: 10_000_000n })
  settleCall = itemOf(await chain.signFor(payer)).call
})
afterAll(() => chain.stop())

/** The gas limit that is enough for a batch, as the service computes it. */
function batchGas(items: readonly Item[]): bigint {
  const caps = items.map(({ gas }) => gas)
  const largest = caps.reduce((one, other) => (one > other ? one : other), 0n)
  return 21_000n + caps.reduce((sum, cap) => sum + cap + 14_000n, 0n) + largest / 63n + 15_000n
}

/** Undoes what a test does to the chain. */
async function onSnapshot(test: () => Promise<void>): Promise<void> {
  const snapshot = await chain.snapshot()
  try {
    await test()
  } finally {
    await chain.revert(snapshot)
  }
}

const reasons = async (items: readonly Item[], gas: bigint) => {
  const { receipt, results } = await chain.settleMany(items, gas)
  return receipt.status === 'reverted' ? 'reverted' : results.map(({ reason }) => reason)
}

/** The gas of a settlement whose proxy does nothing but end with so many bytes. */
async function gasOfBytes(bytes: number, end: 'revert' | 'return'): Promise<bigint> {
  await stubProxyWithBytes(chain.rpcUrl, bytes, end)
  const { results } = await chain.settleMany([{ gas: 1_000_000n, call: settleCall }])
  return results[0]?.gasUsed ?? 0n
}

describe('the gas of a batch', () => {
  it('gives every payment exactly its cap or reverts as a whole, whichever position the gas ends at', () =>
    onSnapshot(async () => {
      await stubProxy(chain.rpcUrl, { burns: true })
      const items = [40_000n, 55_000n, 30_000n, 70_000n, 45_000n].map((gas) => ({ gas, call: settleCall }))
      const expected = items.map(({ gas }) => reasonOfGas(gas))
      const positions = new Set<string | null>()
      let [reverted, complete] = [0, 0]
      for (let gas = 100_000n; gas <= batchGas(items); gas += 3_301n) {
        const outcome = await reasons(items, gas)
        if (outcome === 'reverted') reverted++
        else complete++
        expect(outcome === 'reverted' ? expected : outcome).toEqual(expected)
        positions.add(await chain.errorOf({ functionName: 'settleMany', args: [items] }, { gas }))
      }
      expect(reverted).toBeGreaterThan(20)
      expect(complete).toBeGreaterThan(3)
      for (const position of items.keys()) expect(positions).toContain(`TooLittleGas(${position})`)
    }))

  it('is enough by the formula of the service, for any caps, sizes and calldata', () =>
    onSnapshot(async () => {
      const fullCall = concatHex([slice(settleCall, 0, 4), `0x${'ff'.repeat(4 + 16 * 32)}`])
      for (const burns of [true, false]) {
        await stubProxy(chain.rpcUrl, { burns })
        for (const caps of [[300_000n], [200_000n, 300_000n], [1n, 2n, 500_000n], Array<bigint>(60).fill(50_000n)]) {
          const items = caps.map((gas) => ({ gas: gas < 1000n ? 1000n : gas, call: fullCall }))
          const gas = batchGas(items)
          expect(await reasons(items, gas)).toEqual(items.map((item) => reasonOfGas(item.gas)))
        }
      }
    }))

  it('is refused for a cap that no call can be given', async () => {
    const cap = { gas: 2n ** 256n - 1n, call: settleCall }
    for (const functionName of ['settleMany', 'simulateMany'] as const) {
      const args = [[itemOf(await chain.signFor(payer)), cap]] as const
      expect(await chain.errorOf({ functionName, args })).toBe('TooLittleGas(1)')
    }
  })

  it('copies nothing but four bytes of what a settlement returns: its size costs only the settlement itself', () =>
    onSnapshot(async () => {
      for (const end of ['revert', 'return'] as const)
        expect((await gasOfBytes(400_000, end)) - (await gasOfBytes(0, end))).toBe(memoryGas(400_000))
    }))

  it('ends a payment whose cap is too small without touching its neighbors', async () => {
    const [first, starved, last] = [await chain.signFor(payer), await chain.signFor(payer), await chain.signFor(payer)]
    for (const gas of [0n, 1n, 700n, 5000n, 20_000n, 40_000n]) {
      const items = [itemOf(first), itemOf(starved, { gas }), itemOf(last)]
      expect((await chain.simulateMany(items)).map(({ succeeds }) => succeeds)).toEqual([true, false, true])
    }
    const before = await chain.usdcBalance(chain.accounts.recipient.address)
    const { results } = await chain.settleMany([itemOf(first), itemOf(starved, { gas: 40_000n }), itemOf(last)])
    expect(results.map(({ settled }) => settled)).toEqual([true, false, true])
    expect(await chain.isPermit2NonceUsed(payer.address, starved.nonce)).toBe(false)
    expect((await chain.usdcBalance(chain.accounts.recipient.address)) - before).toBe(2n * CHARGE)
  })

  it('reports no reason for a payment that ran out of gas, not that of the payment before it', async () => {
    const foreign = await chain.signFor(payer, { facilitator: chain.key })
    const items = [itemOf(await chain.signFor(payer), { gas: 0n }), itemOf(foreign), itemOf(foreign, { gas: 0n })]
    const expected = ['0x00000000', toFunctionSelector('UnauthorizedFacilitator()'), '0x00000000']
    expect((await chain.settleMany(items)).results.map(({ reason }) => reason)).toEqual(expected)
    expect((await chain.simulateMany(items)).map(({ reason }) => reason)).toEqual(expected)
  })
})

describe('a payer whose account has code', () => {
  it('pays with nothing but its own cap for code that burns gas, at any position', async () => {
    const hostile = await createDelegatingPayer(chain.rpcUrl)
    await hostile.setMode('burns_gas')
    for (const position of [0, 1, 2]) {
      const items: Item[] = [itemOf(await chain.signFor(payer)), itemOf(await chain.signFor(payer))]
      items.splice(position, 0, itemOf(await chain.signFor(hostile), { gas: 200_000n }))
      const { results } = await chain.settleMany(items, batchGas(items))
      expect(results.map(({ settled }) => settled)).toEqual([0, 1, 2].map((index) => index !== position))
      const burned = results[position]?.gasUsed ?? 0n
      expect(burned).toBeGreaterThan(195_000n)
      expect(burned).toBeLessThan(204_000n)
    }
  })

  it('cannot harm the batch by reverting with much data', async () => {
    const hostile = await createDelegatingPayer(chain.rpcUrl)
    await hostile.setMode('reverts_with_bytes', 250_000n)
    const items = [itemOf(await chain.signFor(hostile), { gas: 1_500_000n }), itemOf(await chain.signFor(payer))]
    const { results } = await chain.settleMany(items, batchGas(items))
    expect(results.map(({ settled }) => settled)).toEqual([false, true])
  })

  it('reports a call that was given as much gas as it needs, and not less, to code that measures it', async () => {
    const measuring = await createDelegatingPayer(chain.rpcUrl)
    await measuring.setMode('needs_gas', 100_000n)
    const outcome = async (gas: bigint) => {
      const items = [itemOf(await chain.signFor(payer)), itemOf(await chain.signFor(measuring), { gas })]
      return (await chain.settleMany(items, batchGas(items))).results.map(({ settled }) => settled)
    }
    expect(await outcome(120_000n)).toEqual([true, false])
    expect(await outcome(180_000n)).toEqual([true, true])
  })

  it('is unable to reach 63/64 of a batch: a cap of 16 million among others is refused unless it can be given', async () => {
    const items = [itemOf(await chain.signFor(payer), { gas: 16_000_000n }), itemOf(await chain.signFor(payer))]
    const gas = 16_100_000n
    expect(await chain.errorOf({ functionName: 'settleMany', args: [items] }, { gas })).toBe('TooLittleGas(0)')
    expect(await chain.errorOf({ functionName: 'settleMany', args: [items] }, { gas: batchGas(items) })).toBeNull()
  })
})
