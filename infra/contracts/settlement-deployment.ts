import { type Address, concatHex, encodeDeployData, getContractAddress, type Hex, keccak256, toHex } from 'viem'
import type { SettlementArtifact } from './settlement-artifact.ts'

/**
 * The factory that deploys with CREATE2 and has the same address on nearly every chain, Base included. It takes the
 * salt and the creation code as they are.
 */
const DEPLOYMENT_FACTORY = '0x4e59b44847b379578588920cA78FbF26c0B4956C'

const DEFAULT_SALT = keccak256(toHex('farebox settlement contract'))

/** Who may do what with a new settlement contract. */
export interface SettlementContractRoles {
  /** Changes the list of keys. */
  readonly owner: Address
  /** May settle. Their order decides the address too. */
  readonly keys: readonly Address[]
}

/**
 * Computes where a contract with these roles is deployed and what has to be sent for it, by any account. The address
 * follows from code, roles and salt, on every chain and whoever sends it.
 */
export function settlementDeployment(
  { abi, creationCode }: SettlementArtifact,
  { owner, keys }: SettlementContractRoles,
  salt: Hex = DEFAULT_SALT,
) {
  const initialization = encodeDeployData({ abi, bytecode: creationCode, args: [owner, keys] })
  const address = getContractAddress({ opcode: 'CREATE2', from: DEPLOYMENT_FACTORY, salt, bytecode: initialization })
  return { address, to: DEPLOYMENT_FACTORY, data: concatHex([salt, initialization]) } as const
}
