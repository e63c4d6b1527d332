import type { AppError } from '#shared/errors/app-error.ts'
import type { CurrentBinding } from '#shared/ledger/acceptance/bind-key.ts'
import type { KnownRequest } from '#shared/ledger/acceptance/find-known-request.ts'
import type { PaymentHeader } from '#shared/payment/x402-wire.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import { isRefusedPayment, type RecentRefusal } from './pay/payer-memory.ts'
import { type PresentedPayment, readAuthorization } from './pay/read-authorization.ts'
import { requireDescription } from './pay/require-description.ts'
import { requireSigner } from './pay/require-signer.ts'
import { isAddressedToUs, type RefusalContext, requireUnsettled } from './pay/require-unsettled.ts'
import { type VerificationContext, verifyAuthorization } from './pay/verify-authorization.ts'
import type { PaidRequest } from './quote/bind-quote.ts'
import type { Challenge } from './quote/challenge.ts'

/** Reads and verifies payments, and explains their refusals. */
export type Payments = ReturnType<typeof createPayments>

export type PaymentContext = VerificationContext & RefusalContext

export function createPayments(context: PaymentContext) {
  return bindTo(context, {
    findRecentRefusal,
    findKnownRequest,
    readPayment,
    requireSigner,
    verifyAuthorization,
    requireUnsettled,
    rememberRefusal,
  })
}

/**
 * Returns the refusal of a payment that the chain recently refused for the same key, while its challenge is valid. For the
 * same request it is repeated without an RPC call, since presenting the payment again costs the caller nothing.
 */
function findRecentRefusal(
  { payers, now }: PaymentContext,
  { decoded }: PaymentHeader,
  idempotencyKey: string,
): RecentRefusal | null {
  if (decoded.outcome !== 'decoded') return null
  const recent = payers.findRefusal(decoded.payment.authorization)
  const isSame =
    isRefusedPayment(recent?.error) &&
    recent?.challenge.idempotencyKey === idempotencyKey &&
    recent.challenge.expiresAt > now()
  return isSame ? recent : null
}

/** Returns what the ledger knows of a key, and of a payment that is addressed to this service. */
async function findKnownRequest(
  { store, terms }: PaymentContext,
  { decoded }: PaymentHeader,
  idempotencyKey: string,
): Promise<KnownRequest> {
  const presented = decoded.outcome === 'decoded' ? decoded.payment.authorization : null
  return await store.findKnownRequest(idempotencyKey, presented && isAddressedToUs(presented, terms) ? presented : null)
}

/** Reads a payment for a request, without network calls. Throws as `requireDescription` and `readAuthorization`. */
function readPayment(
  context: PaymentContext,
  header: PaymentHeader,
  paidRequest: PaidRequest,
  binding: CurrentBinding | null,
): PresentedPayment {
  requireDescription(context, header, paidRequest, binding)
  return readAuthorization(context, header, paidRequest)
}

/** Remembers a payment that is refused, if the chain refused it. Returns what to answer with the challenge. */
function rememberRefusal(
  { payers }: PaymentContext,
  { decoded }: PaymentHeader,
  error: AppError,
  challenge: Challenge,
): AppError {
  return decoded.outcome === 'decoded' ? payers.rememberRefusal(decoded.payment.authorization, error, challenge) : error
}
