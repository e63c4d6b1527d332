import type { PayerFundsReader } from '#shared/chain/reading/payer-funds.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { PermitStore } from '#shared/ledger/allowances/permit-store.ts'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'

export interface StoredPermitContext {
  readonly terms: Pick<PaymentTerms, 'asset' | 'permit2' | 'settlementContract'>
  readonly permitStore: Pick<PermitStore, 'findStoredPermit' | 'forgetStoredPermit'>
  readonly payerFunds: PayerFundsReader
}

/**
 * Returns the payer's stored permit if it is for as much as the payment; otherwise `null`. Only the settlement contract
 * can bring it. A payment with a permit may have waited for its turn, in which its payer may have stored another one.
 * Reads nothing of the chain.
 */
export async function usablePermit(
  { terms, permitStore }: StoredPermitContext,
  {
    authorization: { payer, facilitator, authorizedMaximum, gasSponsoring },
    storedPermit,
  }: { readonly authorization: Authorization; readonly storedPermit: AllowancePermit | null },
): Promise<AllowancePermit | null> {
  if (facilitator !== terms.settlementContract) return null
  const stored = gasSponsoring === null ? storedPermit : await permitStore.findStoredPermit(payer)
  return stored !== null && stored.value >= authorizedMaximum ? stored : null
}

/**
 * Returns the payment with the stored permit in place of its own, which has the same nonce: payments then share it, and
 * the first that needs it brings it to the chain. A stored permit whose nonce is used is forgotten, and the payment is
 * returned as it was signed. Throws `payment_network_unavailable`.
 */
export async function useStoredPermit(
  { terms, permitStore, payerFunds }: StoredPermitContext,
  authorization: Authorization,
  stored: AllowancePermit,
): Promise<Authorization> {
  const { payer } = authorization
  const known = await payerFunds.recent(payer)
  const reading = known ? { outcome: 'read' as const, funds: known } : await payerFunds.read(payer, [])
  if (reading.outcome === 'unreachable') throw new AppError('payment_network_unavailable', { cause: reading.cause })
  const { permitNonce } = reading.funds
  if (permitNonce > stored.nonce) await permitStore.forgetStoredPermit(stored)
  if (permitNonce !== stored.nonce) return authorization
  const { value: amount, nonce, deadline, signature } = stored
  const parties = { from: payer, asset: terms.asset, spender: terms.permit2 }
  const gasSponsoring = { ...parties, amount, nonce, deadline, signature, version: PERMIT_VERSION }
  return { ...authorization, gasSponsoring }
}

/** The version of the extension `eip2612GasSponsoring`, in which payments bring permits. */
const PERMIT_VERSION = '1'
