import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { UPTO_PROXY_ADDRESS } from '#shared/adapters/chain/network/contracts.ts'
import { requireSettlementContract } from '#shared/adapters/chain/settlement-contract/require-contract.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'
import { deploySettlementContract } from '../../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

type Hex = `0x${string}`

let devnet: TestDevnet
let proxy: RpcProxy
let contract: Hex
let listed: Hex
const stranger = newAddress()
beforeAll(async () => {
  devnet = await startTestDevnet()
  proxy = await startRpcProxy(devnet.rpcUrl)
  listed = devnet.accounts.settlement.address.toLowerCase() as Hex
  const owner = devnet.accounts.recipient.address
  contract = (await deploySettlementContract(devnet.rpcUrl, { owner, keys: [listed] })).toLowerCase() as Hex
})
afterEach(() => proxy.setFault(null))
afterAll(async () => {
  await proxy.stop()
  await devnet.stop()
})

function newAddress(): Hex {
  return privateKeyToAccount(generatePrivateKey()).address.toLowerCase() as Hex
}

async function failureOf(address: Hex, keys: readonly Hex[]): Promise<string | null> {
  try {
    await requireSettlementContract(createChainClient(proxy.url, PATIENCE_MS), address, keys)
    return null
  } catch (error) {
    if (!(error instanceof StartFailure)) throw error
    return error.message
  }
}

describe('the settlement contract at the start of a process', () => {
  it('accepts one that lists at least one of the keys', async () => {
    expect(await failureOf(contract, [listed])).toBeNull()
    expect(await failureOf(contract, [stranger, listed])).toBeNull()
  })

  it('refuses an address without code on this chain', async () => {
    expect(await failureOf(stranger, [listed])).toMatch(
      /^SETTLEMENT_CONTRACT: there is no contract at 0x.* on this chain/,
    )
  })

  it('refuses other code, such as that of the proxy, before it calls it', async () => {
    const calls = proxy.calls.length
    expect(await failureOf(UPTO_PROXY_ADDRESS, [listed])).toMatch(
      /^SETTLEMENT_CONTRACT: .* is not the settlement contract/,
    )
    expect(proxy.calls.slice(calls)).toEqual(['eth_getCode'])
  })

  it('refuses one that lists none of the keys, and names them', async () => {
    const failure = await failureOf(contract, [stranger])
    expect(failure).toMatch(/^SETTLEMENT_CONTRACT: .* lists none of the settlement keys/)
    expect(failure).toContain(stranger)
  })

  it.each([
    ['does not answer', { kind: 'reset' }],
    ['returns 500', { kind: 'status', status: 500 }],
    ['is overloaded', { kind: 'error', code: -32005, message: 'limit exceeded' }],
    ['answers with a page', { kind: 'html' }],
    ['answers with nothing', { kind: 'forge', answer: { result: null } }],
  ] as const)('lets the process start when the node %s', async (_, fault) => {
    for (const methods of [[], ['eth_call']]) {
      proxy.setFault(fault, ...methods)
      expect(await failureOf(contract, [stranger])).toBeNull()
    }
  })
})
