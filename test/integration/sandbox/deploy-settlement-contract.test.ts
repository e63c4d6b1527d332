import { createPublicClient, http, keccak256 } from 'viem'
import { expect, it } from 'vitest'
import { base } from '#shared/adapters/chain/network/base-chain.ts'
import { batchSettlementAbi, SETTLEMENT_CONTRACT_CODE_HASH } from '#shared/adapters/chain/network/contracts.ts'
import { deploySettlementContract } from '../../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { startDevnet } from '../../../infra/sandbox/chain/devnet.ts'
import { createSandboxAccount } from '../../../infra/sandbox/chain/fund-devnet.ts'

it('deploys the settlement contract once, also where no block is mined for an hour', async () => {
  const devnet = await startDevnet({ blockTimeSeconds: 3600 })
  try {
    const [owner, key] = [createSandboxAccount().address, createSandboxAccount().address]
    const contract = await deploySettlementContract(devnet.rpcUrl, { owner, keys: [key] })
    const client = createPublicClient({ chain: base, transport: http(devnet.rpcUrl) })
    const code = await client.getCode({ address: contract })
    expect(keccak256(code ?? '0x')).toBe(SETTLEMENT_CONTRACT_CODE_HASH)
    const call = { address: contract, abi: batchSettlementAbi } as const
    expect(await client.readContract({ ...call, functionName: 'isKey', args: [key] })).toBe(true)
    expect(await client.readContract({ ...call, functionName: 'owner' })).toBe(owner)
    const block = await client.getBlockNumber()
    expect(await deploySettlementContract(devnet.rpcUrl, { owner, keys: [key] })).toBe(contract)
    expect(await client.getBlockNumber()).toBe(block)
  } finally {
    await devnet.stop()
  }
})
