import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { DEVNET_CHAIN_ID } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

let devnet: TestDevnet
let account: PrivateKeyAccount

beforeAll(async () => {
  devnet = await startTestDevnet()
})
afterAll(() => devnet.stop())
beforeEach(async () => {
  account = privateKeyToAccount(generatePrivateKey())
  await callRpc(devnet.rpcUrl, 'anvil_setBalance', [account.address, '0xde0b6b3a7640000'])
})

async function send(nonce: number): Promise<void> {
  const raw = await account.signTransaction({
    type: 'eip1559',
    chainId: DEVNET_CHAIN_ID,
    nonce,
    gas: 21_000n,
    maxFeePerGas: 5_000_000_000n,
    maxPriorityFeePerGas: 1n,
    to: account.address,
  })
  await callRpc(devnet.rpcUrl, 'eth_sendRawTransaction', [raw])
}

const countNonces = () => devnet.client.getTransactionCount({ address: account.address, blockTag: 'latest' })

it('transactions whose predecessor was mined while they were added are mined', async () => {
  await send(2)
  await send(1)
  // Leaves the queue as that race does: nonce 1 waits for nonce 0, which is used.
  await callRpc(devnet.rpcUrl, 'anvil_setNonce', [account.address, '0x1'])
  await expect.poll(countNonces, { timeout: PATIENCE_MS }).toBe(3)
})

it('a transaction whose predecessor is missing goes on waiting for it', async () => {
  const other = account
  await send(1)
  account = privateKeyToAccount(generatePrivateKey())
  await callRpc(devnet.rpcUrl, 'anvil_setBalance', [account.address, '0xde0b6b3a7640000'])
  await send(1)
  await callRpc(devnet.rpcUrl, 'anvil_setNonce', [account.address, '0x1'])
  // The look that mines this one has seen the other one too.
  await expect.poll(countNonces, { timeout: PATIENCE_MS }).toBe(2)
  account = other
  expect(await countNonces()).toBe(0)
  await send(0)
  await expect.poll(countNonces, { timeout: PATIENCE_MS }).toBe(2)
})
