import type { Hex } from 'viem'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { KNOWN_CODE } from '#shared/payment/known-wallets.ts'
import { checkWalletCode } from '../../../infra/commands/preflight/check-wallet-code.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { placeDelegate } from '../../support/chain/delegating-payer.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { placePublished, SAFE_CONTRACTS, SIMPLE_7702_ACCOUNT } from '../../support/wallets/published-code.ts'

/** Solady's proxy of ERC-1967: runs what a slot of the account names. */
const PROXY_CODE =
  '0x363d3d373d3d363d7f360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc545af43d6000803e6038573d6000fd5b3d6000f3'
const PROXY: Hex = `0x${'7f'.repeat(20)}`
const OTHER_CODE = '0x600160005260206000f3'

let devnet: TestDevnet
let proxy: RpcProxy
beforeAll(async () => {
  devnet = await startTestDevnet()
  proxy = await startRpcProxy(devnet.rpcUrl)
})
afterEach(() => proxy.setFault(null))
afterAll(async () => {
  await proxy.stop()
  await devnet.stop()
})

const check = (added: readonly Hex[] | null = []) =>
  checkWalletCode({ RPC_URL: [proxy.url], RPC_TIMEOUT_MS: PATIENCE_MS, ALLOWED_WALLET_CODE: added && [...added] })
const outcomes = async (added?: readonly Hex[]) => (await check(added)).map(({ outcome }) => outcome)

describe('the code of wallets, before a deployment takes payments', () => {
  it('asks nothing where no account with code may pay', async () => {
    const before = proxy.calls.length
    expect(await check(null)).toEqual([
      { check: 'wallet code', outcome: 'skipped', detail: expect.stringContaining('ALLOWED_WALLET_CODE=none') },
    ])
    expect(proxy.calls).toHaveLength(before)
  })

  it('says which known wallets are not on the chain, and fails for one with other code', async () => {
    const safes = Object.values(SAFE_CONTRACTS).flatMap(({ singleton, layer2Singleton, handler }) => [
      singleton,
      layer2Singleton,
      handler,
    ])
    await placePublished(devnet.rpcUrl, SIMPLE_7702_ACCOUNT, ...safes)
    const [traces, partial] = await check()
    expect(traces).toMatchObject({ outcome: 'passed' })
    const placed = safes.length + 1
    expect(partial).toMatchObject({
      outcome: 'skipped',
      detail: expect.stringContaining(`${KNOWN_CODE.length - placed} of ${KNOWN_CODE.length} contracts`),
    })
    const { address } = SAFE_CONTRACTS['1.4.1'].singleton
    await callRpc(devnet.rpcUrl, 'anvil_setCode', [address, OTHER_CODE])
    const [, different] = await check()
    expect(different).toMatchObject({
      outcome: 'failed',
      detail: expect.stringMatching(/Safe’s Safe 1\.4\.1\) has the code hash/),
    })
  })

  it('fails for a node that does not list what runs', async () => {
    proxy.setFault({ kind: 'error', code: -32601, message: 'the method does not exist' }, 'eth_createAccessList')
    const [traces] = await check()
    expect(traces).toMatchObject({
      outcome: 'failed',
      detail: expect.stringMatching(/does not answer eth_createAccessList.*payers with code get 503/),
    })
  })

  it('fails for an added contract that runs what storage names, and passes one that decides by itself', async () => {
    await callRpc(devnet.rpcUrl, 'anvil_setCode', [PROXY, PROXY_CODE])
    const own = await placeDelegate(devnet.rpcUrl)
    expect((await outcomes([PROXY, own])).slice(2)).toEqual(['failed', 'passed'])
    const [, , proxied, missing] = await check([PROXY, `0x${'7e'.repeat(20)}`])
    expect(proxied?.detail).toContain('reads from an account’s storage what code it runs')
    expect(missing).toMatchObject({ outcome: 'failed', detail: expect.stringContaining('has no code') })
  })
})
