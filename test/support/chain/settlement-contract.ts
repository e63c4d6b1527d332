import { encodeFunctionData, type Hex, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { deploySettlementContract } from '../../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import type { TestDevnet } from './devnet.ts'

/** A deployed settlement contract whose list of keys a test may change. */
export interface TestSettlementContract {
  /** In lower case. */
  readonly address: Hex
  setKey(account: Hex, isListed: boolean): Promise<void>
}

/** Deploys a contract of its own that lists these keys. */
export async function deployTestContract(
  { rpcUrl, client }: Pick<TestDevnet, 'rpcUrl' | 'client'>,
  keys: readonly Hex[],
): Promise<TestSettlementContract> {
  const owner = privateKeyToAccount(generatePrivateKey()).address
  const address = (await deploySettlementContract(rpcUrl, { owner, keys })).toLowerCase() as Hex
  return {
    address,
    setKey: async (account, isListed) => {
      await callRpc(rpcUrl, 'anvil_setBalance', [owner, toHex(10n ** 18n)])
      await callRpc(rpcUrl, 'anvil_impersonateAccount', [owner])
      const data = encodeFunctionData({ abi: settlementContractAbi, functionName: 'setKey', args: [account, isListed] })
      const hash = await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [{ from: owner, to: address, data }])
      const { status } = await client.waitForTransactionReceipt({ hash })
      if (status !== 'success') throw new Error('the list of keys did not change')
    },
  }
}
