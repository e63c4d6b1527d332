import type { PermitConfirmation, PermitEvidence } from '#shared/chain/allowance/permit-submitter.ts'
import type { SignedPermit } from '#shared/ledger/allowances/claim-allowances.ts'
import type { AllowanceFailureCode, GrantedAllowance, MinedPermit } from '#shared/ledger/allowances/finish-allowance.ts'
import { type AllowancePermit, isAllowanceSufficient } from '#shared/payment/allowance-permit.ts'

type Hex = `0x${string}`

/** One transaction with the permit's account nonce and its state on chain. */
export interface PermitStatus {
  readonly hash: Hex
  readonly confirmation: PermitConfirmation
}

export interface PermitFailure {
  readonly code: AllowanceFailureCode
  readonly reason: string
}

export type PermitVerdict =
  | { readonly verdict: 'granted'; readonly granted: GrantedAllowance }
  | { readonly verdict: 'failed'; readonly failure: PermitFailure; readonly mined: MinedPermit }
  /** Nothing that was signed can be mined any more, and the permit is unused: another account nonce is needed. */
  | { readonly verdict: 'nonce_used_elsewhere' }
  | { readonly verdict: 'open' }

/** Returns whether the chain must be read beyond the receipts to judge the permit. */
export function needsEvidence(statuses: readonly PermitStatus[]): boolean {
  return statuses.some(({ confirmation: { outcome } }) => outcome === 'reverted' || outcome === 'event_missing')
}

/**
 * Returns the verdict on a signed permit over all transactions with its account nonce, fillers included: at most one of
 * them is ever mined. A missing receipt proves nothing, since nodes lag; `evidence` comes from one block and must be
 * read before the statuses. A transaction without effect is no failure while the allowance suffices: anyone may submit
 * the owner's permit.
 */
export function judgePermit(
  permit: AllowancePermit,
  { accountNonce, isAbandoned }: SignedPermit,
  statuses: readonly PermitStatus[],
  evidence: Extract<PermitEvidence, { outcome: 'read' }> | null,
): PermitVerdict {
  for (const { hash, confirmation } of statuses)
    if (confirmation.outcome === 'confirmed')
      return { verdict: 'granted', granted: { by: 'own_transaction', mined: minedAs(hash, confirmation) } }
  if (!evidence || statuses.some(({ confirmation }) => confirmation.outcome === 'unreachable'))
    return { verdict: 'open' }
  const isGranted = isAllowanceSufficient(evidence, permit.value)
  for (const { hash, confirmation } of statuses) {
    if (confirmation.outcome !== 'reverted' && confirmation.outcome !== 'event_missing') continue
    // A reading of an earlier block does not know what was granted since.
    if (evidence.block < confirmation.blockNumber) return { verdict: 'open' }
    const mined = minedAs(hash, confirmation)
    return isGranted
      ? { verdict: 'granted', granted: { by: 'other_submission', blockNumber: evidence.block, mined } }
      : { verdict: 'failed', failure: failureOf(confirmation.outcome, isAbandoned), mined }
  }
  // Only an unused permit proves that none of our transactions was the one that used the account nonce.
  return evidence.accountNonceCount > accountNonce && evidence.permitNonce <= permit.nonce
    ? { verdict: 'nonce_used_elsewhere' }
    : { verdict: 'open' }
}

function failureOf(outcome: 'reverted' | 'event_missing', isAbandoned: boolean): PermitFailure {
  return outcome === 'event_missing' && isAbandoned
    ? { code: 'gas_unavailable', reason: 'fees rose beyond what was reserved while it was pending' }
    : { code: 'permit_reverted', reason: outcome === 'reverted' ? 'reverted' : 'its account nonce was filled' }
}

function minedAs(
  transaction: Hex,
  { blockNumber, blockHash, gas, costWei }: Extract<PermitConfirmation, { readonly costWei: bigint }>,
): MinedPermit {
  return { transaction, blockNumber, blockHash, gas, costWei }
}
