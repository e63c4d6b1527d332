import type { PublicClient } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Verification } from '#shared/payment/facilitator.ts'
import { isAbandoned } from '../network/rpc-failure.ts'
import { diagnoseRefusal } from './diagnose-refusal.ts'
import { readCode } from './payer-code.ts'
import { type SimulatedFees, simulateSettlement } from './settlement-call.ts'

/** Reads the fees of the transaction that will be sent. Rejects when the chain cannot be reached. */
export type ReadFees = () => Promise<SimulatedFees>

/**
 * Checks whether `amount` could be settled now. A revert without an explanation on chain is simulated once more: one
 * wrong answer from a node must not reject a valid payment. Without `readFees`, as for a facilitator that chooses its
 * own, the simulation has a gas limit only.
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
  const first = await simulate(client, authorization, amount, fees)
  if (first) return first
  const diagnosis = await diagnoseRefusal(client, authorization, amount)
  const isExplained = diagnosis.outcome === 'unreachable' || diagnosis.code !== 'payment_rejected'
  return isExplained ? diagnosis : ((await simulate(client, authorization, amount, fees)) ?? diagnosis)
}

/** Returns `null` for a revert. */
async function simulate(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
  fees: SimulatedFees | null,
): Promise<Verification | null> {
  const simulation = await simulateSettlement(client, authorization, amount, fees)
  switch (simulation.outcome) {
    case 'succeeds':
      return { outcome: 'valid', needsPermit: simulation.needsPermit }
    case 'unreachable':
      return (await isCausedByPayer(client, authorization.payer, simulation.cause)) ? EXCESSIVE : simulation
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
