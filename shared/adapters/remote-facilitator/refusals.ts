import type { RefusalCode } from '#shared/payment/facilitator.ts'

/**
 * What a facilitator's reasons say. `certain` ones follow from the payment and the clock alone; the others it also gives
 * when its own node did not answer, or saw another block than ours, so they count only when our own reading agrees.
 * Source: @x402/evm 2.27.0, verifyUptoPermit2 and what it calls.
 */
const refusals: Readonly<Record<string, { code: RefusalCode; certain: boolean }>> = {
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

/** `undefined` for a reason that nobody has documented: it says nothing definite about a payment. */
export function refusalOf(reason: string | undefined): { code: RefusalCode; certain: boolean } | undefined {
  return reason !== undefined && Object.hasOwn(refusals, reason) ? refusals[reason] : undefined
}

/** A facilitator's reasons may hold URLs of its node: for logs only this much, and only of documented or plain ones. */
export function loggableReason(reason: string | undefined): string {
  return reason !== undefined && /^[a-z0-9_]{1,80}$/.test(reason) ? reason : 'undocumented reason'
}
