import { encodeFunctionData, parseAbi, toFunctionSelector } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { createDelegatingPayer } from '../../support/chain/delegating-payer.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type BatchChain, CHARGE, encodeOwnCall, itemOf, newAddress, startBatchChain } from './batch-chain.ts'

let chain: BatchChain
let payer: Payer
beforeAll(async () => {
  chain = await startBatchChain()
  payer = await createPayer(chain.rpcUrl, { approved: true })
})
afterAll(() => chain.stop())

const NO_CODE = { codeSize: 0n, codePrefix: `0x${'00'.repeat(23)}` } as const
const succeeding = (count: number) => Array<boolean>(count).fill(true)

describe('simulateMany', () => {
  it('judges each payment on the untouched state: neither balance, permit, nonce nor allowance of one is gone for another', async () => {
    const exact = await createPayer(chain.rpcUrl, { approved: true, usdcAtomic: CHARGE })
    const sponsored = await createPayer(chain.rpcUrl, { usdcAtomic: CHARGE })
    const once = await chain.signFor(payer)
    const items = [
      itemOf(await chain.signFor(exact)),
      itemOf(await chain.signFor(exact)),
      itemOf(once),
      itemOf(once),
      itemOf(await chain.signFor(sponsored, { gasSponsored: true }), { submitsPermit: true, gas: 250_000n }),
      itemOf(await chain.signFor(sponsored, { gasSponsored: true }), { submitsPermit: true, gas: 250_000n }),
      itemOf(await chain.signFor(sponsored, { gasSponsored: true })),
    ]
    const simulated = await chain.simulateMany(items)
    expect(simulated.map(({ succeeds }) => succeeds)).toEqual([...succeeding(6), false])
    const { results } = await chain.settleMany(items)
    expect(results.map(({ settled }) => settled)).toEqual([true, false, true, false, true, false, false])
  })

  it('reports the reason of each failure, as a batch does', async () => {
    const used = await chain.signFor(payer)
    await payer.invalidateNonce(used.nonce)
    const items = [
      itemOf(used),
      itemOf(await chain.signFor(payer)),
      itemOf(await chain.signFor(payer, { facilitator: newAddress() })),
    ]
    expect(await chain.simulateMany(items)).toEqual([
      { succeeds: false, reason: toFunctionSelector('InvalidNonce()'), ...NO_CODE },
      { succeeds: true, reason: '0x00000000', ...NO_CODE },
      { succeeds: false, reason: toFunctionSelector('UnauthorizedFacilitator()'), ...NO_CODE },
    ])
  })

  it('reports the code of each payer: none, a delegation with its delegate, or the beginning of a contract', async () => {
    const delegating = await createDelegatingPayer(chain.rpcUrl)
    const contract = { ...payer, address: DEVNET_ADDRESSES.usdc.toLowerCase() as `0x${string}` }
    const signed = await Promise.all([payer, delegating, contract].map((by) => chain.signFor(by)))
    const code = await chain.client.getCode({ address: DEVNET_ADDRESSES.usdc })
    expect(await chain.simulateMany(signed.map((authorization) => itemOf(authorization)))).toMatchObject([
      { succeeds: true, ...NO_CODE },
      { succeeds: true, codeSize: 23n, codePrefix: `0xef0100${delegating.delegate.slice(2)}` },
      { succeeds: false, codeSize: BigInt(((code ?? '0x').length - 2) / 2), codePrefix: code?.slice(0, 48) },
    ])
  })

  it('is open to anyone and changes nothing, also when it is sent as a transaction', async () => {
    const authorization = await chain.signFor(payer)
    const before = await chain.usdcBalance(payer.address)
    const calls = [
      encodeOwnCall({ functionName: 'simulateMany', args: [[itemOf(authorization), itemOf(authorization)]] }),
    ]
    for (const data of calls) {
      const receipt = await chain.send(newAddress(), chain.contract, data)
      expect(receipt).toMatchObject({ status: 'success', logs: [] })
      expect(receipt.gasUsed).toBeGreaterThan(100_000n)
    }
    expect(await chain.isPermit2NonceUsed(payer.address, authorization.nonce)).toBe(false)
    expect(await chain.usdcBalance(payer.address)).toBe(before)
  })

  it('reverts with its result when one settlement is simulated directly, so that nothing of it can remain', async () => {
    const authorization = await chain.signFor(payer)
    const { gas, call } = itemOf(authorization)
    const data = encodeFunctionData({
      abi: parseAbi(['struct Settlement { uint256 gas; bytes call; }', 'function simulateOne(Settlement, uint256)']),
      args: [{ gas, call }, 0n],
    })
    for (const from of [chain.key, newAddress(), chain.contract])
      expect(await chain.send(from, chain.contract, data)).toMatchObject({ status: 'reverted', logs: [] })
    expect(await chain.isPermit2NonceUsed(payer.address, authorization.nonce)).toBe(false)
  })

  it('isolates code that burns gas or reverts with much data from thirty other payments', async () => {
    const [burning, bombing] = [await createDelegatingPayer(chain.rpcUrl), await createDelegatingPayer(chain.rpcUrl)]
    await burning.setMode('burns_gas')
    await bombing.setMode('reverts_with_bytes', 60_000n)
    const good = await Promise.all(Array.from({ length: 30 }, () => chain.signFor(payer)))
    const hostile = await Promise.all([burning, bombing].map((by) => chain.signFor(by)))
    const items = [...hostile, ...good].map((authorization) => itemOf(authorization, { gas: 200_000n }))
    // What the service gives: the caps, a twentieth more, and 100,000 for each.
    const gas = 32n * (210_000n + 100_000n)
    const simulated = await chain.simulateMany(items, gas)
    expect(simulated.map(({ succeeds }) => succeeds)).toEqual([false, false, ...succeeding(30)])
  })

  it('reverts as a whole, never judges a payment, when the call has too little gas for a cap', async () => {
    const items = await Promise.all([1, 2, 3].map(async () => itemOf(await chain.signFor(payer), { gas: 200_000n })))
    const errors = new Set<string | null>()
    for (let gas = 60_000n; gas < 700_000n; gas += 7_919n) {
      const error = await chain.errorOf({ functionName: 'simulateMany', args: [items] }, { gas })
      errors.add(error)
      const simulated = error === null ? await chain.simulateMany(items, gas) : []
      expect(simulated.map(({ succeeds }) => succeeds)).toEqual(simulated.map(() => true))
    }
    expect([...errors]).toEqual(expect.arrayContaining(['TooLittleGas(0)', 'TooLittleGas(1)', 'TooLittleGas(2)', null]))
  })
})
