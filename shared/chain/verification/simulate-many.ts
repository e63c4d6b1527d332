import {
  decodeFunctionResult,
  encodeFunctionData,
  type Hex,
  numberToHex,
  type PublicClient,
  prepareEncodeFunctionData,
} from 'viem'
import type { AccountCode } from '#shared/chain/verification/payer-code.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { settlementContractAbi } from '../network/contracts.ts'
import { isFeeRefusal } from '../network/rpc-failure.ts'
import { mayNeedPermit, type SimulatedFees, settlementCall, settlementGas } from './settlement-call.ts'

/** Gas of the contract itself for one entry, its calldata included, and of the call as a whole. Generous: it is free. */
const GAS_OF_ENTRY = 60_000n
const GAS_OF_CALL = 200_000n

const simulateManyFunction = prepareEncodeFunctionData({ abi: settlementContractAbi, functionName: 'simulateMany' })

/** One payment to simulate. */
export interface SimulatedPayment {
  readonly authorization: Authorization
  readonly amount: AtomicAmount
}

/** What the chain says of one payment, at one block. */
export interface PaymentSimulation {
  /** Without submitting the permit; with a lasting one, which the contract submits if it is needed. */
  readonly succeeds: boolean
  /** With the permit; `false` for a payment that has none of its own. */
  readonly succeedsWithPermit: boolean
  /** The code of the payer's account. */
  readonly code: AccountCode
}

/** Of the transaction that the simulation stands for. */
export interface SimulatedTransaction {
  /** The settlement key that would send it, or the contract itself when no key is known. */
  readonly from: Hex
  readonly fees: SimulatedFees | null
}

/**
 * Simulates the settlement of payments that name `contract`, each on the state of the same block and with the gas that
 * its settlement may use; none sees another. One RPC call. Throws when the call as a whole fails, which says nothing
 * about a payment.
 */
export async function simulateMany(
  client: PublicClient,
  contract: Hex,
  payments: readonly SimulatedPayment[],
  { from, fees }: SimulatedTransaction,
): Promise<readonly PaymentSimulation[]> {
  const entries = payments.map(entriesOf)
  const settlements = entries.flat()
  const call = {
    from,
    to: contract,
    data: encodeFunctionData({ ...simulateManyFunction, args: [settlements] }),
    gas: numberToHex(gasFor(settlements)),
    ...(fees && {
      maxFeePerGas: numberToHex(fees.maxFeePerGas),
      maxPriorityFeePerGas: numberToHex(fees.maxPriorityFeePerGas),
    }),
  }
  let data: Hex
  try {
    data = await client.request({ method: 'eth_call', params: [call, 'latest'] })
  } catch (error) {
    // The key has too little gas, or the fee limit is too low. That is reported where gas is checked.
    if (fees && isFeeRefusal(error)) return await simulateMany(client, contract, payments, { from, fees: null })
    throw error
  }
  const results = decode(data)
  if (results.length !== settlements.length)
    throw new Error(`the settlement contract simulated ${results.length} of ${settlements.length} settlements`)
  let position = 0
  return entries.map((ofPayment) => {
    const [plain, withPermit] = results.slice(position, position + ofPayment.length)
    position += ofPayment.length
    if (!plain) throw new Error('a payment has no simulation')
    return {
      succeeds: plain.succeeds,
      succeedsWithPermit: withPermit?.succeeds ?? false,
      code: { size: plain.codeSize, prefix: plain.codePrefix },
    }
  })
}

/** Throws an ordinary error for another contract's answer, or none: it is not a failure of the network. */
function decode(data: Hex) {
  try {
    return decodeFunctionResult({ abi: settlementContractAbi, functionName: 'simulateMany', data })
  } catch (cause) {
    throw new Error('the settlement contract returned no simulations', { cause })
  }
}

interface Entry {
  readonly gas: bigint
  readonly call: Hex
}

/** Returns the settlement without the payer's permit, and with it if that is another settlement. */
function entriesOf({ authorization, amount }: SimulatedPayment): readonly Entry[] {
  return (mayNeedPermit(authorization) ? [false, true] : [false]).map((submitsPermit) => ({
    gas: settlementGas(authorization, submitsPermit),
    call: settlementCall(authorization, amount, { submitsPermit }).data,
  }))
}

/** Returns enough for every entry to use all of its gas: a call keeps a 64th of what is left. */
function gasFor(entries: readonly Entry[]): bigint {
  const granted = entries.reduce((sum, { gas }) => sum + gas + GAS_OF_ENTRY, 0n)
  return (granted * 64n) / 63n + GAS_OF_CALL
}
