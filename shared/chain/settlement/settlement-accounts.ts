import { type Hex, keccak256, type PublicClient, parseTransaction } from 'viem'
import type { Broadcast, SignedTransaction } from '../../payment/facilitator.ts'
import { settlementKeys } from '../signing/settlement-keys.ts'
import { broadcast } from './broadcast.ts'
import { createFeeEstimator, type FeeEstimator } from './fee-estimator.ts'

/** The accounts of this process's settlement keys. Methods throw when the chain cannot be read. */
export interface SettlementAccounts {
  /** Their addresses in lower case. */
  readonly facilitators: readonly Hex[]
  /** Returns the number of used account nonces, which is the next nonce to be mined. */
  countAccountNonces(facilitator: Hex): Promise<bigint>
  /** Returns the same number including the pending transactions that the node knows. */
  countPendingNonces(facilitator: Hex): Promise<bigint>
  /** Returns whether a stored transaction's fee cap is below the base fee of the next block. */
  isUnderpriced(raw: Hex): Promise<boolean>
  /**
   * Signs a stored transaction again under the same account nonce, with fees high enough to replace it. Returns `null`
   * when they would exceed the maximum fee.
   */
  replace(facilitator: Hex, raw: Hex): Promise<SignedTransaction | null>
  /** Returns whether the balance covers the most that a signed transaction can cost; nodes refuse it otherwise. */
  canPay(facilitator: Hex, raw: Hex): Promise<boolean>
  /**
   * Signs an empty transfer of the account to itself: for a nonce gap, or to replace a stored transaction that must no
   * longer be mined.
   */
  fill(facilitator: Hex, accountNonce: bigint, instead: Hex | null): Promise<SignedTransaction>
  broadcast(transaction: SignedTransaction): Promise<Broadcast>
}

const TRANSFER_GAS = 21_000n

export interface SettlementAccountsOptions {
  readonly estimateFees?: FeeEstimator
  readonly maximumFeePerGasWei?: bigint | null
}

/** Creates the accounts of `privateKeys` on one chain. A replacement is built from the stored transaction alone. */
export function createSettlementAccounts(
  client: PublicClient,
  chainId: number,
  privateKeys: readonly `0x${string}`[],
  { estimateFees = createFeeEstimator(client), maximumFeePerGasWei = null }: SettlementAccountsOptions = {},
): SettlementAccounts {
  const keys = settlementKeys(privateKeys)
  const countNonces = async (address: `0x${string}`, blockTag: 'latest' | 'pending') =>
    BigInt(await client.getTransactionCount({ address, blockTag }))
  return {
    facilitators: keys.facilitators,
    countAccountNonces: (facilitator) => countNonces(facilitator, 'latest'),
    countPendingNonces: (facilitator) => countNonces(facilitator, 'pending'),
    isUnderpriced: async (raw) => {
      const { maxFeePerGas = 0n } = parseTransaction(raw)
      return maxFeePerGas < (await estimateFees()).baseFeePerGas
    },
    replace: async (facilitator, raw) => {
      const { maxFeePerGas: oldFee = 0n, maxPriorityFeePerGas: oldTip = 0n, ...call } = parseTransaction(raw)
      const fees = await estimateFees()
      const maxFeePerGas = largest(bumped(oldFee), fees.maxFeePerGas)
      if (maximumFeePerGasWei !== null && maxFeePerGas > maximumFeePerGasWei) return null
      const tip = largest(bumped(oldTip), fees.maxPriorityFeePerGas)
      const replacement = keys.signTransaction(facilitator, {
        type: 'eip1559',
        chainId,
        nonce: call.nonce ?? 0,
        ...(call.gas === undefined ? {} : { gas: call.gas }),
        ...(call.to ? { to: call.to } : {}),
        ...(call.data === undefined ? {} : { data: call.data }),
        ...(call.value === undefined ? {} : { value: call.value }),
        maxFeePerGas,
        maxPriorityFeePerGas: tip < maxFeePerGas ? tip : maxFeePerGas,
      })
      return { raw: replacement, hash: keccak256(replacement) }
    },
    canPay: async (address, raw) => maximumCostWei(raw) <= (await client.getBalance({ address })),
    fill: async (facilitator, accountNonce, instead) => {
      const fees = await estimateFees()
      const { maxFeePerGas: oldFee = 0n, maxPriorityFeePerGas: oldTip = 0n } = instead ? parseTransaction(instead) : {}
      const maxFeePerGas = largest(bumped(oldFee), fees.maxFeePerGas)
      const tip = largest(bumped(oldTip), fees.maxPriorityFeePerGas)
      const raw = keys.signTransaction(facilitator, {
        type: 'eip1559',
        chainId,
        nonce: Number(accountNonce),
        gas: TRANSFER_GAS,
        to: facilitator,
        value: 0n,
        maxFeePerGas,
        maxPriorityFeePerGas: tip < maxFeePerGas ? tip : maxFeePerGas,
      })
      return { raw, hash: keccak256(raw) }
    },
    broadcast: (transaction) => broadcast(client, transaction),
  }
}

/** Returns the most that a signed transaction can cost: its gas limit at its fee cap. */
function maximumCostWei(raw: `0x${string}`): bigint {
  const { gas = 0n, maxFeePerGas = 0n } = parseTransaction(raw)
  return gas * maxFeePerGas
}

/**
 * Raises a fee by an eighth, rounded up: nodes require 10 % more, some 12.5 %, of both fee and tip for a replacement.
 */
function bumped(wei: bigint): bigint {
  return (wei * 9n + 7n) / 8n + 1n
}

function largest(one: bigint, other: bigint): bigint {
  return one > other ? one : other
}
