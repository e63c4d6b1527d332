import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createBalanceReader } from '#shared/adapters/chain/reading/balance-reader.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer } from '../../support/payer/payer.ts'

let devnet: TestDevnet
let proxy: RpcProxy
beforeAll(async () => {
  devnet = await startTestDevnet()
  proxy = await startRpcProxy(devnet.rpcUrl)
})
afterAll(async () => {
  await proxy.stop()
  await devnet.stop()
})

const newReader = () => createBalanceReader(createChainClient(proxy.url, PATIENCE_MS))

describe('reading balances', () => {
  it('reads many at once with one RPC call, each its own, in any spelling of the address', async () => {
    const balances = [0n, 5n, 1_000_000n]
    const payers = await Promise.all(balances.map((usdcAtomic) => createPayer(devnet.rpcUrl, { usdcAtomic })))
    const reader = newReader()
    const callsBefore = proxy.calls.length
    const addresses = payers.map(({ address }) => `0x${address.slice(2).toUpperCase()}` as const)
    expect(await Promise.all(addresses.map((address) => reader.readBalance(address)))).toEqual(balances)
    expect(proxy.calls.slice(callsBefore)).toEqual(['eth_call'])
  })

  it('reports payment_network_unavailable for each when the node does not answer', async () => {
    proxy.setFault({ kind: 'status', status: 500 })
    const reader = newReader()
    const addresses = [`0x${'1'.repeat(40)}`, `0x${'2'.repeat(40)}`] as const
    for (const some of [addresses, addresses.slice(1)])
      for (const read of await Promise.allSettled(some.map((address) => reader.readBalance(address)))) {
        const error = read.status === 'rejected' ? read.reason : null
        expect(error).toBeInstanceOf(AppError)
        expect(error).toMatchObject({ code: 'payment_network_unavailable' })
      }
    proxy.setFault(null)
  })
})
