import { type Address, createPublicClient, type Hex, http, keccak256, parseEther, toHex } from 'viem'
import { base } from '#shared/chain/network/base-chain.ts'
import { SETTLEMENT_CONTRACT_CODE_HASH } from '#shared/chain/network/contracts.ts'
import { readSettlementArtifact } from '../../../contracts/settlement-artifact.ts'
import { type SettlementContractRoles, settlementDeployment } from '../../../contracts/settlement-deployment.ts'
import { callRpc } from '../json-rpc.ts'
import { waitForReceipt } from '../wait-for-receipt.ts'

/** Pays for the deployment. Nobody has its key: only a node that impersonates accounts can act as it. */
const DEPLOYER: Address = `0x${keccak256(toHex('farebox.sandbox.deployer')).slice(-40)}`

/**
 * Deploys the settlement contract on a development node, as an operator does on a real chain, and returns its address.
 * Roles decide the address, so a repetition on a kept chain finds what is there. Mines a block where none is mined for
 * each transaction.
 *
 * @throws Error when another code is at the address, and the node's error when it cannot deploy.
 */
export async function deploySettlementContract(rpcUrl: string, roles: SettlementContractRoles): Promise<Address> {
  const client = createPublicClient({ chain: base, transport: http(rpcUrl) })
  const { address, to, data } = settlementDeployment(await readSettlementArtifact(), roles)
  if ((await client.getCode({ address })) === undefined) {
    await callRpc(rpcUrl, 'anvil_setBalance', [DEPLOYER, toHex(parseEther('1'))])
    await callRpc(rpcUrl, 'anvil_impersonateAccount', [DEPLOYER])
    const hash = await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [{ from: DEPLOYER, to, data }])
    if ((await client.getTransaction({ hash })).blockNumber === null) await callRpc(rpcUrl, 'evm_mine', [])
    await waitForReceipt(client, hash)
  }
  const code = await client.getCode({ address })
  if (code === undefined || keccak256(code) !== SETTLEMENT_CONTRACT_CODE_HASH)
    throw new Error(`The settlement contract was not deployed at ${address}`)
  return address
}
