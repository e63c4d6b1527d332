import { type Hex, keccak256, type PublicClient } from 'viem'
import { SETTLEMENT_CONTRACT_CODE_HASH, settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { Refusal } from '../command-line.ts'

/** Who may do what with a contract. */
export type ContractState = Awaited<ReturnType<typeof readContractState>>

/**
 * Reads a settlement contract and which of the accounts it lists. Throws `Refusal` when the address is none of this
 * version of farebox.
 */
export async function readContractState(client: PublicClient, contract: Hex, accounts: readonly Hex[]) {
  const code = await client.getCode({ address: contract })
  if (code === undefined) throw new Refusal(`There is no contract at ${contract}`)
  if (keccak256(code) !== SETTLEMENT_CONTRACT_CODE_HASH)
    throw new Refusal(
      `The code at ${contract} has the hash ${keccak256(code)} instead of ${SETTLEMENT_CONTRACT_CODE_HASH}`,
    )
  const call = { address: contract, abi: settlementContractAbi } as const
  const [owner, proposedOwner, areKeys] = await Promise.all([
    client.readContract({ ...call, functionName: 'owner' }),
    client.readContract({ ...call, functionName: 'proposedOwner' }),
    Promise.all(accounts.map((account) => client.readContract({ ...call, functionName: 'isKey', args: [account] }))),
  ])
  return { owner, proposedOwner, listed: accounts.filter((_, index) => areKeys[index]) }
}
