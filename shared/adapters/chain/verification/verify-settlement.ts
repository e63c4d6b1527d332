import type { PublicClient } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Verification } from '#shared/payment/facilitator.ts'
import { isAbandoned } from '../network/rpc-failure.ts'
import { diagnoseRefusal } from './diagnose-refusal.ts'
import { readCode } from './payer-code.ts'
import { type SimulatedFees, type Simulation, simulateSettlement } from './settlement-call.ts'

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
