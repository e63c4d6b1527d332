import type { ContractFunctionParameters, PublicClient } from 'viem'
import { z } from 'zod'
import { type AtomicAmount, atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Verification } from '#shared/payment/facilitator.ts'
import { MULTICALL3_ADDRESS, PERMIT2_ADDRESS, permit2Abi, usdcAbi } from '../network/contracts.ts'
import { hasNonce, wordOfNonce } from '../network/permit2-nonce.ts'
import { isAbandoned } from '../network/rpc-failure.ts'
import { readCode } from './payer-code.ts'
import { type SimulatedFees, type Simulation, simulateSettlement } from './settlement-call.ts'

const stateSchema = z.tuple([z.bigint(), z.bigint(), z.bigint(), z.bigint()])

/** Reads the fees of the transaction that will be sent. Rejects when the chain cannot be reached. */
export type ReadFees = () => Promise<SimulatedFees>

/**
 * Checks whether `amount` could be settled now, by the account that the authorization names. Without `readFees`, as for a
 * facilitator that chooses its own, the simulation has a gas limit only.
 */
export async function verifySettlement(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
  readFees: ReadFees | null,
): Promise<Verification> {
  let fees: SimulatedFees | null
  try {
    fees = readFees && (await readFees())
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  }
  const simulate = () => simulateSettlement(client, authorization, amount, fees)
  return await judgeSimulation(client, authorization, amount, { first: await simulate(), again: simulate })
}

/**
 * Returns what a simulation says of a payment. A revert without an explanation on chain is simulated `again`: one wrong
 * answer from a node must not reject a valid payment.
 */
export async function judgeSimulation(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
  { first, again }: { readonly first: Simulation; readonly again: () => Promise<Simulation> },
): Promise<Verification> {
  const verdict = await verdictOf(client, authorization, first)
  if (verdict) return verdict
  const diagnosis = await diagnoseRefusal(client, authorization, amount)
  const isExplained = diagnosis.outcome === 'unreachable' || diagnosis.code !== 'payment_rejected'
  return isExplained ? diagnosis : ((await verdictOf(client, authorization, await again())) ?? diagnosis)
}

/** Returns `null` for a revert. */
async function verdictOf(
  client: PublicClient,
  { payer }: Authorization,
  simulation: Simulation,
): Promise<Verification | null> {
  switch (simulation.outcome) {
    case 'succeeds':
      return { outcome: 'valid', needsPermit: simulation.needsPermit }
    case 'unreachable':
      return (await isCausedByPayer(client, payer, simulation.cause)) ? EXCESSIVE : simulation
    case 'reverts':
      return null
  }
}

const EXCESSIVE: Verification = {
  outcome: 'refused',
  code: 'payment_rejected',
  detail: 'The code of the payer’s account takes too long, or returns too much, when the payment is simulated.',
}

/**
 * Returns whether a simulation failed because of what the payer's own account executes. Without code, an account
 * executes nothing, so the network is at fault; with code, the network must answer this cheap read while the simulation
 * fails.
 */
async function isCausedByPayer(client: PublicClient, payer: `0x${string}`, cause: unknown): Promise<boolean> {
  if (!isAbandoned(cause)) return false
  return await readCode(client, payer).then(
    (code) => code !== '0x',
    () => false,
  )
}

/**
 * Finds out why the chain rejects a settlement, for an error that says what to change. Returns `payment_rejected` when
 * no readable state explains it. One RPC call, so all is of the same block.
 */
async function diagnoseRefusal(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
): Promise<Exclude<Verification, { outcome: 'valid' }>> {
  const { nonce, gasSponsoring } = authorization
  try {
    const { usedNonces, balance, allowance, permitNonce } = await readState(client, authorization)
    if (hasNonce(usedNonces, nonce)) return { outcome: 'refused', code: 'payment_nonce_used' }
    if (balance < amount) {
      const [available, needed] = [dollarsFromAtomic(atomicAmount(balance)), dollarsFromAtomic(amount)]
      return {
        outcome: 'refused',
        code: 'insufficient_funds',
        detail: `The payer has ${available} USDC; ${needed} USDC is needed.`,
      }
    }
    if (allowance < amount && !gasSponsoring)
      return { outcome: 'refused', code: 'permit2_allowance_required', permitNonce }
    // Signed while an earlier payment of the payer was being settled with its own permit.
    if (allowance < amount && gasSponsoring && gasSponsoring.nonce < permitNonce)
      return { outcome: 'refused', code: 'permit_already_used' }
    if (allowance < amount)
      return {
        outcome: 'refused',
        code: 'payment_rejected',
        detail: 'The chain rejects the gas-sponsoring permit of this payment.',
      }
    return { outcome: 'refused', code: 'payment_rejected' }
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  }
}

async function readState(client: PublicClient, { asset, payer, nonce }: Authorization) {
  const contracts: ContractFunctionParameters[] = [
    { address: PERMIT2_ADDRESS, abi: permit2Abi, functionName: 'nonceBitmap', args: [payer, wordOfNonce(nonce)] },
    { address: asset, abi: usdcAbi, functionName: 'balanceOf', args: [payer] },
    { address: asset, abi: usdcAbi, functionName: 'allowance', args: [payer, PERMIT2_ADDRESS] },
    { address: asset, abi: usdcAbi, functionName: 'nonces', args: [payer] },
  ]
  const multicallAddress = MULTICALL3_ADDRESS
  const read = await client.multicall({ allowFailure: false, batchSize: 0, multicallAddress, contracts })
  const [usedNonces, balance, allowance, permitNonce] = stateSchema.parse(read)
  return { usedNonces, balance, allowance, permitNonce }
}
