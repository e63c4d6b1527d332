import {
  BaseError,
  ContractFunctionRevertedError,
  encodeFunctionData,
  type Hex,
  type Log,
  parseEventLogs,
  type TransactionReceipt,
  toHex,
} from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { settlementCall } from '#shared/chain/verification/settlement-call.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { deploySettlementContract } from '../../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import type { Payer } from '../payer/payer.ts'
import { type AuthorizationChanges, signAuthorization } from '../payer/sign-authorization.ts'
import { startTestDevnet, type TestDevnet } from './devnet.ts'

/** Much more than `settle` needs, and little enough for 200 of them in a transaction. */
const ENOUGH_GAS = 130_000n
export const CHARGE = atomicAmount(1000n)

/** As the contract takes it. */
export interface Item {
  readonly gas: bigint
  readonly call: Hex
}

/** What a mined batch did, by its own events, with the USDC transfers before each. */
export interface MinedBatch {
  readonly receipt: TransactionReceipt
  readonly results: readonly MinedItem[]
}

export interface MinedItem {
  readonly settled: boolean
  readonly payer: string
  readonly nonce: bigint
  readonly gasUsed: bigint
  readonly reason: Hex | null
}

/** A devnet whose settlement key is listed by a settlement contract. */
export interface BatchChain extends TestDevnet {
  readonly contract: Hex
  /** Owns the contract; the node may send for it. */
  readonly owner: Hex
  readonly key: Hex
  /** Signs the contract as the facilitator, without a permit. */
  readonly signFor: (payer: Payer, changes?: AuthorizationChanges) => Promise<Authorization>
  /** Sends a batch with this gas limit, mined whether it reverts or not. */
  readonly settleMany: (items: readonly Item[], gas?: bigint, from?: Hex) => Promise<MinedBatch>
  /** Returns the name of the contract's error with its arguments, such as `TooLittleGas(3)`, or `null` without one. */
  readonly errorOf: (call: OwnCall, options?: { from?: Hex; gas?: bigint }) => Promise<string | null>
  readonly simulateMany: (items: readonly Item[], gas?: bigint) => Promise<readonly SimulatedItem[]>
  /** Sends a call from an account that the node impersonates. */
  readonly send: (from: Hex, to: Hex, data: Hex, gas?: bigint) => Promise<TransactionReceipt>
}

export interface SimulatedItem {
  readonly succeeds: boolean
  readonly reason: Hex
  readonly codeSize: bigint
  readonly codePrefix: Hex
}

interface PermitArgument {
  readonly value: bigint
  readonly deadline: bigint
  readonly r: Hex
  readonly s: Hex
  readonly v: number
}

/** A call of the contract by function name. */
export type OwnCall =
  | { readonly functionName: 'settleMany' | 'simulateMany'; readonly args: readonly [readonly Item[]] }
  | { readonly functionName: 'setKey'; readonly args: readonly [Hex, boolean] }
  | { readonly functionName: 'proposeOwner'; readonly args: readonly [Hex] }
  | { readonly functionName: 'acceptOwnership'; readonly args?: readonly [] }
  | { readonly functionName: 'settleAfterPermit'; readonly args: readonly [PermitArgument] }

export const encodeOwnCall = (call: OwnCall): Hex => encodeFunctionData({ abi: settlementContractAbi, ...call })

/** Returns the settlement of an authorization as the contract takes it. */
export function itemOf(
  authorization: Authorization,
  { gas = ENOUGH_GAS, charge = CHARGE, submitsPermit = false } = {},
): Item {
  return { gas, call: settlementCall(authorization, charge, { submitsPermit }).data }
}

export const newAddress = (): Hex => privateKeyToAccount(generatePrivateKey()).address

/** The largest batches of the tests need more than the blocks of a fresh devnet hold. */
const BLOCK_GAS = 60_000_000n

export async function startBatchChain(): Promise<BatchChain> {
  const devnet = await startTestDevnet()
  const { rpcUrl, client, accounts } = devnet
  await callRpc(rpcUrl, 'evm_setBlockGasLimit', [toHex(BLOCK_GAS)])
  const [owner, key] = [newAddress(), accounts.settlement.address]
  const contract = await deploySettlementContract(rpcUrl, { owner, keys: [key] })
  const send: BatchChain['send'] = async (from, to, data, gas = BLOCK_GAS / 2n) => {
    await callRpc(rpcUrl, 'anvil_setBalance', [from, toHex(10n ** 18n)])
    await callRpc(rpcUrl, 'anvil_impersonateAccount', [from])
    const hash = await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [{ from, to, data, gas: toHex(gas) }])
    return await client.waitForTransactionReceipt({ hash })
  }
  const signFor: BatchChain['signFor'] = (payer, changes) =>
    signAuthorization(devnet, payer, { facilitator: contract, gasSponsored: false, ...changes })
  const settleMany: BatchChain['settleMany'] = async (items, gas, from = key) => {
    const data = encodeOwnCall({ functionName: 'settleMany', args: [items] })
    const receipt = await send(from, contract, data, gas)
    return { receipt, results: itemResults(receipt.logs, contract) }
  }
  const errorOf: BatchChain['errorOf'] = async (call, { from = key, gas = BLOCK_GAS } = {}) => {
    try {
      await client.simulateContract({
        address: contract,
        abi: settlementContractAbi,
        account: from,
        gas,
        ...call,
      } as never)
      return null
    } catch (error) {
      const revert = error instanceof BaseError && error.walk((cause) => cause instanceof ContractFunctionRevertedError)
      if (!(revert instanceof ContractFunctionRevertedError)) throw error
      return revert.data === undefined ? 'no error' : `${revert.data.errorName}(${revert.data.args?.join() ?? ''})`
    }
  }
  const simulateMany: BatchChain['simulateMany'] = async (items, gas = BLOCK_GAS) => {
    const call = { address: contract, abi: settlementContractAbi, functionName: 'simulateMany', args: [items] } as const
    return (await client.simulateContract({ ...call, account: key, gas })).result
  }
  return { ...devnet, contract, owner, key, send, signFor, settleMany, errorOf, simulateMany }
}

function itemResults(logs: readonly Log[], contract: Hex): readonly MinedItem[] {
  const own = logs.filter(({ address }) => address.toLowerCase() === contract.toLowerCase())
  return parseEventLogs({ abi: settlementContractAbi, logs: own }).map(({ eventName, args }) => {
    if (eventName !== 'PaymentSettled' && eventName !== 'PaymentFailed') throw new Error(`unexpected ${eventName}`)
    const { payer, nonce, gasUsed } = args
    return {
      settled: eventName === 'PaymentSettled',
      payer: payer.toLowerCase(),
      nonce,
      gasUsed,
      reason: 'reason' in args ? args.reason : null,
    }
  })
}
