import { toHex } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { afterAll, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createGasReader } from '#shared/adapters/chain/settlement/gas-reader.ts'
import { gasOfContracts } from '#shared/adapters/chain/settlement-contract/gas-of-contract.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startBatchSettler } from '../../support/chain/batch-settler.ts'
import { deployTestContract } from '../../support/chain/settlement-contract.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

type Hex = `0x${string}`

const chain = await startBatchSettler()
afterAll(() => chain.stop())

const FEES = { maxFeePerGas: 10n ** 9n, maxPriorityFeePerGas: 1n, baseFeePerGas: 1n, isLimited: false }
const SETTLEMENT_WEI = 300_000n * FEES.maxFeePerGas

async function newKey(settlements: bigint): Promise<Hex> {
  const address = privateKeyToAddress(generatePrivateKey()).toLowerCase() as Hex
  await callRpc(chain.devnet.rpcUrl, 'anvil_setBalance', [address, toHex(settlements * SETTLEMENT_WEI)])
  return address
}

function readerOf(keys: readonly Hex[]) {
  const client = createChainClient(chain.proxy.url, PATIENCE_MS)
  return gasOfContracts(
    client,
    createGasReader(client, async () => FEES),
    keys,
  )
}

async function leftIn(contract: Hex, keys: readonly Hex[]): Promise<number> {
  const { settlementsLeft } = await readerOf(keys).readGas(contract)
  return settlementsLeft
}

it('a contract has the gas of its richest listed key, and none once all of them are empty', async () => {
  const [empty, low, rich, unlisted] = [await newKey(0n), await newKey(3n), await newKey(7n), await newKey(50n)]
  const both = await deployTestContract(chain.devnet, [empty, low, rich])
  const emptied = await deployTestContract(chain.devnet, [empty])
  expect(await leftIn(both.address, [empty, low, rich, unlisted])).toBe(7)
  expect(await leftIn(both.address, [empty, low, unlisted])).toBe(3)
  expect(await leftIn(emptied.address, [empty, low, unlisted])).toBe(0)
  expect(await leftIn(emptied.address, [unlisted])).toBe(0)
  // Known to nobody in this process.
  expect(await leftIn(emptied.address, [])).toBe(Number.POSITIVE_INFINITY)
  expect(await leftIn(low, [rich])).toBe(3)
})
