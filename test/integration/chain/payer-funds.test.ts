import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/client.ts'
import { createPayerFundsReader } from '#shared/adapters/chain/payer-funds.ts'
import { createSettler } from '#shared/adapters/chain/settler.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createChainPayer } from '../../support/payer/chain-payer.ts'

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

/** Sends the settlement and gives its block. */
async function settle(authorization: Authorization): Promise<bigint> {
  const client = createChainClient(devnet.rpcUrl, PATIENCE_MS)
  const settler = createSettler(client, 8453, [devnet.accounts.settlement.privateKey])
  const { authorizedMaximum } = authorization
  const prepared = await settler.prepare(authorization, authorizedMaximum)
  if (prepared.outcome !== 'ready') throw new Error(`not settleable: ${prepared.outcome}`)
  const { terms, minimumAccountNonce } = prepared
  const transaction = await settler.sign(authorization, authorizedMaximum, terms, minimumAccountNonce)
  await settler.broadcast(transaction)
  // Anvil answers a broadcast a moment before it has mined it.
  await devnet.client.waitForTransactionReceipt({ hash: transaction.hash })
  const confirmation = await settler.confirm(transaction.hash, authorization, authorizedMaximum)
  if (confirmation.outcome !== 'confirmed') throw new Error(`not confirmed: ${confirmation.outcome}`)
  return confirmation.blockNumber
}

describe('a reading of what a payer holds', () => {
  it('takes balance, allowance and used nonces from one block, in one call', async () => {
    const payer = await createChainPayer(devnet, 1_000_000n)
    await payer.approve(40_000n)
    const [settled, open] = [await payer.sign(), await payer.sign()]
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

  it('is of an earlier block than anything that settles after it', async () => {
    const payer = await createChainPayer(devnet)
    await payer.approve()
    const authorization = await payer.sign()
    const reading = await reader().read(authorization.payer, [])
    const block = await settle(authorization)
    expect(reading.outcome === 'read' && reading.funds.blockNumber).toBe(block - 1n)
  })

  it('counts as recent for a second and not longer', async () => {
    const payer = await createChainPayer(devnet)
    const { payer: address } = await payer.sign()
    const funds = reader()
    expect(funds.recent(address)).toBeNull()
    await funds.read(address, [])
    time += 999
    expect(funds.recent(address)?.balance).toBe(1_000_000n)
    time += 1
    expect(funds.recent(address)).toBeNull()
  })

  it('is unreachable, and never zero, when the chain does not answer', async () => {
    const payer = await createChainPayer(devnet)
    const { payer: address } = await payer.sign()
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
