import { encodeFunctionData, type PublicClient } from 'viem'
import { settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { Refusal } from '../command-line.ts'
import type { ContractRequest } from './options.ts'
import type { Plan } from './plan.ts'
import { type ContractState, readContractState } from './read-contract-state.ts'

type ChangeRequest = Exclude<ContractRequest, { action: 'deploy' }>

/** Plans a change of an existing contract. */
export async function planChange(client: PublicClient, request: ChangeRequest): Promise<Plan> {
  const { contract } = request
  const accounts = request.action === 'set-key' ? [request.key] : []
  const state = await readContractState(client, contract, accounts)
  const change = describeChange(request)
  const transaction = {
    to: contract,
    data: change.data,
    from: request.action === 'accept-ownership' ? state.proposedOwner : state.owner,
    purpose: change.purpose,
  }
  if (request.action === 'accept-ownership' && BigInt(state.proposedOwner) === 0n)
    throw new Refusal(`No owner is proposed for ${contract}`)
  return {
    report: [
      ['contract', contract],
      ['owner', state.owner],
      ...(request.action === 'set-key' ? [['key', request.key] as const] : []),
    ],
    transaction: change.isDone(state) ? null : transaction,
    confirm: async () => {
      const now = await readContractState(client, contract, accounts)
      const isDone = request.action === 'accept-ownership' ? now.owner === state.proposedOwner : change.isDone(now)
      if (!isDone) throw new Refusal('The chain is not as requested: somebody else changed the contract')
      return [['done', change.result, ...change.hints]]
    },
  }
}

function describeChange(request: ChangeRequest) {
  const abi = settlementContractAbi
  switch (request.action) {
    case 'set-key': {
      const { key, isListed } = request
      return {
        data: encodeFunctionData({ abi, functionName: 'setKey', args: [key, isListed] }),
        purpose: isListed ? 'lists the key' : 'removes the key',
        result: isListed ? `${key} may settle through the contract` : `${key} may not settle through the contract`,
        hints: isListed
          ? []
          : ['Batches of it that are not mined yet revert; settlers sign them again with another key.'],
        isDone: ({ listed }: ContractState) => listed.includes(key) === isListed,
      }
    }
    case 'propose-owner':
      return {
        data: encodeFunctionData({ abi, functionName: 'proposeOwner', args: [request.owner] }),
        purpose: 'proposes the owner',
        result: `${request.owner} becomes the owner once it sends --accept-ownership`,
        hints: [],
        isDone: ({ owner, proposedOwner }: ContractState) => proposedOwner === request.owner || owner === request.owner,
      }
    case 'accept-ownership':
      return {
        data: encodeFunctionData({ abi, functionName: 'acceptOwnership' }),
        purpose: 'accepts the ownership',
        result: 'The proposed owner owns the contract',
        hints: [],
        isDone: () => false,
      }
  }
}
