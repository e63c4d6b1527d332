import type { PublicClient } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Verification } from '#shared/payment/facilitator.ts'
import { diagnoseRefusal } from './diagnose-refusal.ts'
import { simulateSettlement } from './settlement-call.ts'

/**
 * Checks whether `amount` could be settled now. A revert without an explanation on chain is simulated once more: one
 * wrong answer from a node must not reject a valid payment.
 */
export async function verifySettlement(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
): Promise<Verification> {
  const first = await simulate(client, authorization, amount)
  if (first) return first
  const diagnosis = await diagnoseRefusal(client, authorization, amount)
  const isExplained = diagnosis.outcome === 'unreachable' || diagnosis.code !== 'payment_rejected'
  return isExplained ? diagnosis : ((await simulate(client, authorization, amount)) ?? diagnosis)
}

/** Returns `null` for a revert. */
async function simulate(
  client: PublicClient,
  authorization: Authorization,
  amount: AtomicAmount,
): Promise<Verification | null> {
  const simulation = await simulateSettlement(client, authorization, amount)
  switch (simulation.outcome) {
    case 'succeeds':
      return { outcome: 'valid', needsPermit: simulation.needsPermit }
    case 'unreachable':
      return simulation
    case 'reverts':
      return null
  }
}
