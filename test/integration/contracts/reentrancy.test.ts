import { fileURLToPath } from 'node:url'
import { encodeFunctionData, type Hex, parseEventLogs } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { compileSources } from '../../../infra/sandbox/chain/contracts/compile.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { delegateTo } from '../../support/chain/delegating-payer.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { signWitness } from '../../support/payer/sign-authorization.ts'
import { type BatchChain, CHARGE, encodeOwnCall, itemOf, newAddress, startBatchChain } from './batch-chain.ts'

const SOURCES = { 'HostilePayer.sol': 'HostilePayer', 'HostileToken.sol': 'HostileToken' } as const
const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/farebox-contracts', import.meta.url))

let chain: BatchChain
let payer: Payer
let hostile: Payer
let contracts: Awaited<ReturnType<typeof compile>>
beforeAll(async () => {
  chain = await startBatchChain()
  contracts = await compile()
  payer = await createPayer(chain.rpcUrl, { approved: true })
  hostile = await createPayer(chain.rpcUrl, { approved: true })
  await delegateTo(hostile, await place(contracts['HostilePayer.sol'].runtimeBytecode))
})
afterAll(() => chain.stop())

const compile = () => compileSources(new URL('solidity/', import.meta.url), SOURCES, CACHE)

async function place(code: Hex): Promise<Hex> {
  const address = newAddress()
  await callRpc(chain.rpcUrl, 'anvil_setCode', [address, code])
  return address
}

/** Lets the hostile payer's code accept its signature only if this call of the contract succeeds, or fails. */
async function expectWhileSigning(data: Hex, succeeds: boolean): Promise<void> {
  const { abi } = contracts['HostilePayer.sol']
  const setCall = encodeFunctionData({ abi, functionName: 'setCall', args: [chain.contract, data, succeeds] })
  expect((await chain.send(hostile.address, hostile.address, setCall)).status).toBe('success')
}

describe('a payer whose code calls the settlement contract while it is asked for its signature', () => {
  it('is refused as any stranger, and changes neither the batch nor another payment in it', async () => {
    const other = await chain.signFor(payer)
    await expectWhileSigning(encodeOwnCall({ functionName: 'settleMany', args: [[itemOf(other)]] }), false)
    const items = [itemOf(await chain.signFor(hostile), { gas: 600_000n }), itemOf(other)]
    const { results } = await chain.settleMany(items)
    expect(results.map(({ settled }) => settled)).toEqual([true, true])
  })

  it('settles nothing even if its account is a listed key: Permit2 asks in a static call', async () => {
    await chain.send(
      chain.owner,
      chain.contract,
      encodeOwnCall({ functionName: 'setKey', args: [hostile.address, true] }),
    )
    const other = await chain.signFor(payer)
    const own = await chain.signFor(hostile)
    for (const nested of [other, own]) {
      await expectWhileSigning(encodeOwnCall({ functionName: 'settleMany', args: [[itemOf(nested)]] }), false)
      // The nested call uses up what it is given; a 64th is enough for the rest.
      const { results } = await chain.settleMany([itemOf(own, { gas: 12_000_000n })])
      const first = nested === other
      expect(results).toMatchObject([{ settled: first, nonce: own.nonce }])
    }
    expect(await chain.isPermit2NonceUsed(payer.address, other.nonce)).toBe(false)
  })

  it('may simulate, which tells that no payment succeeds while another one is being settled', async () => {
    const other = await chain.signFor(payer)
    await expectWhileSigning(encodeOwnCall({ functionName: 'simulateMany', args: [[itemOf(other)]] }), true)
    const { results } = await chain.settleMany([itemOf(await chain.signFor(hostile), { gas: 900_000n }), itemOf(other)])
    expect(results.map(({ settled }) => settled)).toEqual([true, true])
  })
})

describe('a token that calls the settlement contract while Permit2 moves it', () => {
  it('is refused as any stranger, and a listed one settles nothing within the settlement', async () => {
    const { abi, runtimeBytecode } = contracts['HostileToken.sol']
    const token = await place(runtimeBytecode)
    const own = await chain.signFor(payer)
    const settles = itemOf(await chain.signFor(payer))
    const terms = { ...own, token, amount: own.authorizedMaximum, to: own.payTo }
    const hostileCall = itemOf({ ...own, asset: token, signature: await signWitness(payer.account, terms) })
    const nested = encodeOwnCall({ functionName: 'settleMany', args: [[settles]] })
    const setCall = encodeFunctionData({ abi, functionName: 'setCall', args: [chain.contract, nested] })
    await chain.send(newAddress(), token, setCall)
    const before = await chain.usdcBalance(chain.accounts.recipient.address)
    const stranger = await chain.settleMany([{ ...hostileCall, gas: 900_000n }])
    expect(parseEventLogs({ abi, logs: stranger.receipt.logs })).toMatchObject([{ args: { succeeds: false } }])
    const again = await chain.signFor(payer)
    const signature = await signWitness(payer.account, { ...terms, ...again, token, amount: again.authorizedMaximum })
    await chain.send(chain.owner, chain.contract, encodeOwnCall({ functionName: 'setKey', args: [token, true] }))
    const listed = await chain.settleMany([itemOf({ ...again, asset: token, signature }, { gas: 900_000n }), settles])
    // The proxy refuses to be entered again, and says so of the nested payment.
    expect(listed.results.map(({ settled }) => settled)).toEqual([false, true, true])
    expect((await chain.usdcBalance(chain.accounts.recipient.address)) - before).toBe(CHARGE)
  })
})
