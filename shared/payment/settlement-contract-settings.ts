import { z } from 'zod'
import { accountAddress } from './account-settings.ts'

/** The setting of API and workers for the operator's settlement contract. */
export const settlementContractSettings = {
  /**
   * The contract that settles many payments in one transaction (`infra/settlement-contract.md`). Challenges name it, and
   * payments that were signed for a settlement key are settled directly. Without it, or with `none`, all are.
   */
  SETTLEMENT_CONTRACT: z
    .literal('none')
    .transform(() => undefined)
    .or(accountAddress)
    .optional(),
}

/** Checks that no remote facilitator, which has keys of its own, is meant to settle through the contract. */
export function checkSettlementContract({
  value,
  issues,
}: z.core.ParsePayload<{ SETTLEMENT_CONTRACT?: string | undefined; FACILITATOR_URL?: string | undefined }>): void {
  if (value.SETTLEMENT_CONTRACT === undefined || value.FACILITATOR_URL === undefined) return
  const message = 'cannot be set with FACILITATOR_URL: a remote facilitator settles with its own keys'
  issues.push({ code: 'custom', path: ['SETTLEMENT_CONTRACT'], message, input: undefined })
}
