import type { RefusalCode } from '#shared/payment/facilitator.ts'

/**
 * The meaning of a facilitator's reasons. `certain` ones follow from the payment and the clock alone. The others also
 * occur when its node did not answer or was at another block than ours, so they count only when our own verification
 * agrees. Source: @x402/evm 2.27.0, verifyUptoPermit2 and the functions it calls.
 */
const REFUSALS: Readonly<Record<string, { code: RefusalCode; certain: boolean }>> = {
  permit2_deadline_expired: { code: 'payment_expired', certain: true },
  eip2612_deadline_expired: { code: 'payment_expired', certain: true },
  permit2_not_yet_valid: { code: 'payment_not_yet_valid', certain: true },
  permit2_payment_too_early: { code: 'payment_not_yet_valid', certain: false },
  invalid_permit2_signature: { code: 'payment_signature_invalid', certain: false },
  permit2_insufficient_balance: { code: 'insufficient_funds', certain: false },
  permit2_allowance_required: { code: 'permit2_allowance_required', certain: false },
  permit2_invalid_nonce: { code: 'payment_nonce_used', certain: false },
  permit2_simulation_failed: { code: 'payment_rejected', certain: false },
  permit2_proxy_not_deployed: { code: 'payment_rejected', certain: false },
  asset_not_deployed_contract: { code: 'payment_rejected', certain: false },
  permit2_amount_mismatch: { code: 'payment_rejected', certain: true },
  permit2_token_mismatch: { code: 'payment_rejected', certain: true },
  invalid_permit2_spender: { code: 'payment_rejected', certain: true },
  invalid_permit2_recipient_mismatch: { code: 'payment_rejected', certain: true },
  upto_facilitator_mismatch: { code: 'payment_rejected', certain: true },
  invalid_upto_evm_scheme: { code: 'payment_rejected', certain: true },
  invalid_upto_evm_network_mismatch: { code: 'payment_rejected', certain: true },
  invalid_upto_evm_payload_settlement_exceeds_amount: { code: 'payment_rejected', certain: true },
  invalid_eip2612_extension_format: { code: 'payment_rejected', certain: true },
  eip2612_from_mismatch: { code: 'payment_rejected', certain: true },
  eip2612_asset_mismatch: { code: 'payment_rejected', certain: true },
  eip2612_spender_not_permit2: { code: 'payment_rejected', certain: true },
  unsupported_payload_type: { code: 'payment_rejected', certain: true },
}

/**
 * Returns the refusal that a reason means, or `undefined` for an undocumented one: it proves nothing about a payment.
 */
export function refusalOf(reason: string | undefined): { code: RefusalCode; certain: boolean } | undefined {
  return reason !== undefined && Object.hasOwn(REFUSALS, reason) ? REFUSALS[reason] : undefined
}

/** Returns a reason for the log if it is a plain identifier: others may contain the URL of the facilitator's node. */
export function loggableReason(reason: string | undefined): string {
  return reason !== undefined && /^[a-z0-9_]{1,80}$/.test(reason) ? reason : 'undocumented reason'
}
