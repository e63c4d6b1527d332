import { keccak256, type PublicClient } from 'viem'
import { SETTLEMENT_CONTRACT_CODE_HASH, UPTO_PROXY_ADDRESS } from '#shared/chain/network/contracts.ts'
import { readSettlementArtifact } from '../../contracts/settlement-artifact.ts'
import { settlementDeployment } from '../../contracts/settlement-deployment.ts'
import { Refusal } from '../command-line.ts'
import type { ContractRequest } from './options.ts'
import type { Plan, ReportLine } from './plan.ts'
import { readContractState } from './read-contract-state.ts'

/** Plans the deployment of a contract, which is the same whoever sends it. */
export async function planDeployment(
  client: PublicClient,
  { owner, keys, salt }: ContractRequest & { action: 'deploy' },
): Promise<Plan> {
  const artifact = await readSettlementArtifact()
  if (keccak256(artifact.runtimeCode) !== SETTLEMENT_CONTRACT_CODE_HASH)
    throw new Refusal('infra/contracts/SettlementContract.json is not the contract that this version of farebox uses')
  const { address, to, data } = settlementDeployment(artifact, { owner, keys }, salt)
  const [existing, factory, proxy] = await Promise.all(
    [address, to, UPTO_PROXY_ADDRESS].map((at) => client.getCode({ address: at as `0x${string}` })),
  )
  if (proxy === undefined)
    throw new Refusal(`This chain has no x402 proxy at ${UPTO_PROXY_ADDRESS}: there is nothing to settle through`)
  if (factory === undefined) throw new Refusal(`This chain has no CREATE2 factory at ${to}`)
  const confirm = async (): Promise<readonly ReportLine[]> => {
    const state = await readContractState(client, address, keys)
    const changed = [
      ...(state.owner === owner ? [] : [`its owner is ${state.owner} by now`]),
      ...keys.filter((key) => !state.listed.includes(key)).map((key) => `it does not list ${key} any more`),
    ]
    return [
      ['deployed', `SETTLEMENT_CONTRACT=${address}`],
      ...(changed.length > 0 ? [['but', ...changed] as const] : []),
    ]
  }
  return {
    report: [
      ['contract', address],
      ['owner', owner],
      ['keys', ...keys],
      ['code hash', SETTLEMENT_CONTRACT_CODE_HASH],
      ...(keys.includes(owner)
        ? [['warning', 'The owner is a settlement key: keep the owner’s key offline.'] as const]
        : []),
      ...(keys.length === 0 ? [['warning', 'Without keys nothing settles before the owner lists one.'] as const] : []),
    ],
    transaction: existing === undefined ? { to, data, from: null, purpose: 'deploys the contract' } : null,
    confirm,
  }
}
