import { type Hex, keccak256, type PublicClient } from 'viem'
import { namingSetting } from '#shared/runtime/start-process.ts'
import {
  PERMIT2_ADDRESS,
  SETTLEMENT_CONTRACT_CODE_HASH,
  settlementContractAbi,
  UPTO_PROXY_ADDRESS,
} from '../network/contracts.ts'
import { isRevert } from '../network/rpc-failure.ts'
import { readCode } from '../verification/payer-code.ts'

/** The contracts without which nothing can be settled. Their code is compared by `npm run preflight`. */
const PAYMENT_CONTRACTS = [
  ['Permit2', PERMIT2_ADDRESS],
  ['the x402 upto proxy', UPTO_PROXY_ADDRESS],
] as const

/**
 * Throws a `StartFailure` that names RPC_URL when a contract of every payment has no code on this chain. Anyone may deploy
 * both at their addresses, so an address in a specification does not say that somebody has. A chain that gives no usable
 * answer prevents no start.
 */
export async function requirePaymentContracts(client: PublicClient): Promise<void> {
  const codes = await Promise.all(PAYMENT_CONTRACTS.map(([, address]) => readCode(client, address).catch(() => null)))
  const missing = PAYMENT_CONTRACTS.filter((_, index) => codes[index] === '0x')
  if (missing.length === 0) return
  await namingSetting('RPC_URL', () => {
    throw new Error(missing.map(([name, address]) => missingContract(name, address)).join('; '))
  })
}

/** Says that a contract of every payment is missing, and what to do. */
export function missingContract(name: string, address: Hex): string {
  return `${name} has no code at ${address} on this chain, so no payment can be settled. Use the chain that has it, or deploy its published code there with its published salt through the CREATE2 factory 0x4e59b44847b379578588920cA78FbF26c0B4956C: anyone may`
}

/**
 * Throws a `StartFailure` that names SETTLEMENT_CONTRACT for a contract that cannot settle what payers sign for it: without
 * code on this chain, with other code, or that lists none of `keys`. A chain that gives no usable answer prevents no start.
 */
export async function requireSettlementContract(
  client: PublicClient,
  contract: Hex,
  keys: readonly Hex[],
): Promise<void> {
  const problem = await findContractProblem(client, contract, keys).catch((error: unknown) => {
    if (isRevert(error)) throw error
    return null
  })
  if (problem !== null)
    await namingSetting('SETTLEMENT_CONTRACT', () => {
      throw new Error(problem)
    })
}

/**
 * Returns why payments to the contract could not be settled with any of `keys`, or `null`. Rejects when the chain cannot be
 * read.
 */
async function findContractProblem(client: PublicClient, contract: Hex, keys: readonly Hex[]): Promise<string | null> {
  const code = await readCode(client, contract)
  if (code === '0x')
    return `there is no contract at ${contract} on this chain; deploy one with npm run deploy:settlement-contract, or correct the address`
  if (keccak256(code) !== SETTLEMENT_CONTRACT_CODE_HASH)
    return `the contract at ${contract} is not the settlement contract of this version: its code hash is ${keccak256(code)} instead of ${SETTLEMENT_CONTRACT_CODE_HASH}`
  const listed = await Promise.all(
    keys.map((key) =>
      client.readContract({ address: contract, abi: settlementContractAbi, functionName: 'isKey', args: [key] }),
    ),
  )
  if (listed.includes(true)) return null
  return `the contract at ${contract} lists none of the settlement keys ${keys.join(', ')}; its owner can list one with npm run deploy:settlement-contract -- --set-key ADDRESS=listed`
}
