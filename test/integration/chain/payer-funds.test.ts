import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createPayerFundsReader } from '#shared/adapters/chain/reading/payer-funds.ts'
import { createSettler } from '#shared/adapters/chain/settlement/settler.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'

let devnet: TestDevnet
let proxy: RpcProxy
let time = 0
beforeAll(async () => {
  devnet = await startTestDevnet()
  proxy = await startRpcProxy(devnet.rpcUrl)
})
afterAll(async () => {
  await proxy.stop()
  await devnet.stop()
})

function reader() {
  return createPayerFundsReader(createChainClient(proxy.url, PATIENCE_MS), () => time)
}

/** Settles and returns the block. */
async function settle(authorization: Authorization): Promise<bigint> {
  const client = createChainClient(devnet.rpcUrl, PATIENCE_MS)
  const settler = createSettler(client, 8453, [devnet.accounts.settlement.privateKey])
  const { authorizedMaximum } = authorization
  const prepared = await settler.prepare(authorization, authorizedMaximum)
  if (prepared.outcome !== 'ready') throw new Error(`not settleable: ${prepared.outcome}`)
  const { terms, minimumAccountNonce } = prepared
  const transaction = await settler.sign(authorization, authorizedMaximum, terms, minimumAccountNonce)
  await settler.broadcast(transaction)
  // Anvil answers a broadcast shortly before it has mined the transaction.
  await devnet.client.waitForTransactionReceipt({ hash: transaction.hash })
  const confirmation = await settler.confirm(transaction.hash, authorization, authorizedMaximum)
  if (confirmation.outcome !== 'confirmed') throw new Error(`not confirmed: ${confirmation.outcome}`)
  return confirmation.blockNumber
}

describe('reading a payer’s funds', () => {
  it('reads balance, allowance and used nonces at one block, with one RPC call', async () => {
    const payer = await createPayer(devnet.rpcUrl, { usdcAtomic: 1_000_000n })
    await payer.approve(40_000n)
    const [settled, open] = [await signAuthorization(devnet, payer), await signAuthorization(devnet, payer)]
    const block = await settle(settled)
    const callsBefore = proxy.calls.length
    const reading = await reader().read(settled.payer, [settled.nonce, open.nonce])
    expect(proxy.calls.slice(callsBefore)).toEqual(['eth_call'])
    expect(reading).toEqual({
      outcome: 'read',
      funds: {
        balance: 1_000_000n - settled.authorizedMaximum,
        allowance: 40_000n - settled.authorizedMaximum,
        blockNumber: block,
        usedNonces: new Set([settled.nonce]),
      },
    })
  })

  it('reads several payers with one RPC call, each with its own funds and nonces', async () => {
    const [poor, rich] = [await createPayer(devnet.rpcUrl, { usdcAtomic: 20_000n }), await createPayer(devnet.rpcUrl)]
    await rich.approve(50_000n)
    const [settled, open] = [await signAuthorization(devnet, poor), await signAuthorization(devnet, rich)]
    const blockNumber = await settle(settled)
    const callsBefore = proxy.calls.length
    const funds = reader()
    const nonces = [settled.nonce, open.nonce, open.nonce ^ 1n]
    const readings = [poor, rich, poor].map((payer, index) => funds.read(payer.address, nonces.slice(index)))
    const left = { balance: 20_000n - settled.authorizedMaximum, allowance: 0n, blockNumber }
    expect(await Promise.all(readings)).toEqual([
      { outcome: 'read', funds: { ...left, usedNonces: new Set([settled.nonce]) } },
      {
        outcome: 'read',
        funds: { balance: 1_000_000n, allowance: 50_000n, blockNumber, usedNonces: new Set() },
      },
      { outcome: 'read', funds: { ...left, usedNonces: new Set() } },
    ])
    expect(proxy.calls.slice(callsBefore)).toEqual(['eth_call'])
  })

  it('reads a payer with many settling payments apart from others', async () => {
    const [busy, other] = [await createPayer(devnet.rpcUrl), await createPayer(devnet.rpcUrl)]
    const funds = reader()
    const callsBefore = proxy.calls.length
    const nonces = Array.from({ length: 17 }, (_, word) => BigInt(word) << 8n)
    const readings = await Promise.all([funds.read(busy.address, nonces), funds.read(other.address, [])])
    expect(readings.map(({ outcome }) => outcome)).toEqual(['read', 'read'])
    expect(proxy.calls.slice(callsBefore)).toEqual(['eth_call', 'eth_call'])
  })

  it('returns a block earlier than that of any later settlement', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    await payer.approve()
    const authorization = await signAuthorization(devnet, payer)
    const reading = await reader().read(authorization.payer, [])
    const block = await settle(authorization)
    expect(reading.outcome === 'read' && reading.funds.blockNumber).toBe(block - 1n)
  })

  it('reuses a reading for one second', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    const { payer: address } = await signAuthorization(devnet, payer)
    const funds = reader()
    expect(funds.recent(address)).toBeNull()
    await funds.read(address, [])
    time += 999
    expect(funds.recent(address)?.balance).toBe(1_000_000n)
    time += 1
    expect(funds.recent(address)).toBeNull()
  })

  it('reports unreachable, never zero, when the chain does not answer', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    const { payer: address } = await signAuthorization(devnet, payer)
    const faults = [
      { kind: 'reset' },
      { kind: 'status', status: 500 },
      { kind: 'empty' },
      { kind: 'error', code: -32_000, message: 'header not found' },
    ] as const
    for (const fault of faults) {
      proxy.setFault(fault)
      expect((await reader().read(address, [1n])).outcome).toBe('unreachable')
    }
    proxy.setFault(null)
  })
})
