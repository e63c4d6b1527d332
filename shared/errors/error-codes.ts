/** Whether money has moved, reported with every error. `unknown` is never followed by a new challenge. */
export type PaymentState = 'none' | 'authorized' | 'settled' | 'unknown'

/** The next step that a caller may take. `new_payment` means the same request with a newly signed payment. */
export type RetryAdvice = 'never' | 'same_request' | 'new_payment'

/** Kind of an error, independent of the endpoint family; rendered as `error.type` in the family's name for it. */
export type ErrorKind = 'invalid_request' | 'authentication' | 'not_found' | 'rate_limit' | 'payment' | 'unavailable'

/** One entry of the error table. */
export interface ErrorCodeEntry {
  readonly status: number
  readonly kind: ErrorKind
  /** Public message, unless the place of failure provides a more specific one. */
  readonly message: string
  readonly retry: RetryAdvice
  readonly payment: PaymentState
}

const invalidRequest = { status: 400, kind: 'invalid_request', retry: 'never', payment: 'none' } as const
const conflict = { status: 409, kind: 'invalid_request', retry: 'never', payment: 'none' } as const
const paymentRefused = { status: 402, kind: 'payment', retry: 'new_payment', payment: 'none' } as const
const limited = { status: 429, kind: 'rate_limit', retry: 'same_request', payment: 'none' } as const
const unavailable = { status: 503, kind: 'unavailable', retry: 'same_request', payment: 'none' } as const
/** The attempt is bound to the authorization that paid for it, so another attempt requires a new signature. */
const uncharged = { status: 503, kind: 'unavailable', retry: 'new_payment', payment: 'none' } as const

/** The table of all public errors: what each code means for the caller. */
export const ERROR_CODES = {
  missing_idempotency_key: {
    ...invalidRequest,
    message:
      'The header x-idempotency-key is missing. Make a key of 1 to 255 visible ASCII characters for each call, such as crypto.randomUUID(), and send the same one with the signed retry and every repetition of that call.',
  },
  invalid_idempotency_key: {
    ...invalidRequest,
    message: 'The header x-idempotency-key must be 1 to 255 visible ASCII characters (no spaces).',
  },
  idempotency_key_conflict: {
    ...invalidRequest,
    message:
      'The header x-idempotency-key and the payment-identifier extension differ. Send only one of them, or the same value in both.',
  },
  malformed_http: { ...invalidRequest, message: 'The request is not well-formed HTTP.' },
  headers_too_large: { ...invalidRequest, message: 'The request headers are larger than 16 KB in total.' },
  duplicate_header: { ...invalidRequest, message: 'A header that must appear only once was sent more than once.' },
  invalid_json: { ...invalidRequest, message: 'The request body is not valid JSON.' },
  invalid_multipart: {
    ...invalidRequest,
    message:
      'The multipart body could not be read. Let the HTTP client write the body and its content-type with the boundary (curl -F file=@input.mp3).',
  },
  missing_field: { ...invalidRequest, message: 'A required field is missing.' },
  unknown_field: { ...invalidRequest, message: 'The request contains a field that is unknown to this endpoint.' },
  duplicate_field: { ...invalidRequest, message: 'A field was sent more than once.' },
  invalid_field: { ...invalidRequest, message: 'A field has an invalid value.' },
  invalid_base64: {
    ...invalidRequest,
    message: 'The audio must be canonical RFC 4648 Base64, without a data-URL prefix, whitespace or missing padding.',
  },
  unsupported_audio: { ...invalidRequest, message: 'The upload is not a decodable MP3.' },
  audio_too_short: { ...invalidRequest, message: 'The audio is shorter than the published least length.' },
  audio_too_long: { ...invalidRequest, message: 'The audio is longer than the published limit.' },
  audio_too_large: { ...invalidRequest, message: 'The audio has more bytes than the published limit.' },
  invalid_payment_header: {
    ...invalidRequest,
    message: 'PAYMENT-SIGNATURE is not a base64-encoded x402 v2 payment payload of scheme "upto".',
  },
  permit_invalid: {
    ...invalidRequest,
    message: 'The signature of this permit is not the owner’s for Permit2, USDC and the current permit nonce.',
  },
  permit_expired: {
    ...invalidRequest,
    message: 'The deadline of this permit has passed, or is too close. Sign one with a later deadline.',
  },
  owner_has_code: {
    ...invalidRequest,
    message:
      'The owner’s account has code (a smart account or an EIP-7702 delegation), so no permit of it is stored. A contract wallet approves Permit2 in a transaction of its own.',
  },
  owner_balance_too_low: {
    ...conflict,
    message: 'The owner has too little USDC for a permit to be stored. Add funds first, or send it with a payment.',
  },
  permits_not_stored: {
    ...conflict,
    message:
      'This service stores no permits: a wallet without an allowance pays one call after another, each with a permit of exactly its maximum.',
  },
  content_rejected: {
    ...invalidRequest,
    message: 'Safety screening rejected this content. Nothing was charged.',
  },
  image_unavailable: {
    ...invalidRequest,
    message: 'An image of the request could not be fetched. Nothing was charged.',
  },
  context_length_exceeded: {
    ...invalidRequest,
    message:
      'Input and output together may exceed the context window of the model. Shorten the input or lower max_tokens.',
  },
  maximum_price_exceeded: {
    ...invalidRequest,
    message: 'The maximum price of this request exceeds the published limit for one call.',
  },
  receipt_token_required: {
    status: 401,
    kind: 'authentication',
    message: 'Send the receipt token as "Authorization: Bearer <X-Receipt-Token>".',
    retry: 'never',
    payment: 'none',
  },
  payment_required: { ...paymentRefused, message: 'Payment is required for this request.' },
  payment_signature_invalid: { ...paymentRefused, message: 'The payment signature does not match its payer.' },
  payment_amount_mismatch: { ...paymentRefused, message: 'The signed maximum differs from the challenge.' },
  payment_asset_mismatch: { ...paymentRefused, message: 'The payment is for a different asset than the challenge.' },
  payment_recipient_mismatch: {
    ...paymentRefused,
    message: 'The payment goes to a different recipient than the challenge.',
  },
  payment_network_mismatch: {
    ...paymentRefused,
    message: 'The payment is for a different network than the challenge.',
  },
  payment_scheme_mismatch: { ...paymentRefused, message: 'The payment does not use the scheme "upto".' },
  payment_spender_mismatch: {
    ...paymentRefused,
    message: 'The payment authorizes a different spender than the challenge.',
  },
  payment_facilitator_mismatch: {
    ...paymentRefused,
    message: 'The payment names a different facilitator than the challenge.',
  },
  payment_terms_mismatch: { ...paymentRefused, message: 'The accepted terms differ from the challenge.' },
  payment_expired: { ...paymentRefused, message: 'The payment expires before the work can be finished.' },
  payment_not_yet_valid: { ...paymentRefused, message: 'The payment is not valid yet.' },
  payment_nonce_used: { ...paymentRefused, message: 'The payment nonce has already been used on chain.' },
  insufficient_funds: { ...paymentRefused, message: 'The payer’s USDC balance is lower than the signed maximum.' },
  payer_blocked: {
    ...conflict,
    message:
      'This address may not pay here. The payment was neither checked nor used; ask the operator of the service.',
  },
  payer_has_code: {
    ...paymentRefused,
    message:
      'The payer’s account has code that is not known to this service (a smart account or an EIP-7702 delegation). Pay from an account without code, or from a known wallet.',
  },
  payer_not_deployed: {
    ...paymentRefused,
    message:
      'The payer’s wallet is not deployed on this network, so nobody can check its signature. Deploy it by its first transaction, which can approve Permit2 for USDC at the same time, then sign the new challenge.',
  },
  payment_rejected: { ...paymentRefused, message: 'The chain rejects this payment.' },
  fresh_signature_required: {
    ...paymentRefused,
    message:
      'This payment was accepted before with another challenge, so it proves nothing now: settled payments are public. Sign the new challenge; a call that is already paid for is not charged again.',
  },
  audio_claim_mismatch: {
    ...paymentRefused,
    message:
      'The recording is not the one that was priced. Nothing was charged. Sign this challenge, which has its price, and send the same request again.',
  },
  challenge_expired: { ...paymentRefused, message: 'The challenge has expired. Sign the new one.' },
  settlement_failed: {
    ...paymentRefused,
    message: 'The work is done, but the payment could not be settled. Nothing was charged and the result is withheld.',
  },
  not_found: { status: 404, kind: 'not_found', message: 'Not found.', retry: 'never', payment: 'none' },
  method_not_allowed: {
    status: 405,
    kind: 'invalid_request',
    message: 'The method is not allowed for this route.',
    retry: 'never',
    payment: 'none',
  },
  idempotency_key_reused: {
    ...conflict,
    message: 'This x-idempotency-key is bound to a different request. Use a new key for a new request.',
  },
  challenge_mismatch: {
    ...conflict,
    message: 'The payment was signed for a different request. Send the body and key that the challenge was issued for.',
  },
  authorization_already_used: {
    ...conflict,
    message: 'This payment authorization already pays for another request. Sign a new one.',
  },
  payment_already_settled: {
    ...conflict,
    payment: 'settled',
    message:
      'This payment was settled on chain, but its result is lost. Do not pay again for this call; contact the operator with the request id for a refund.',
  },
  payment_refunded: {
    ...conflict,
    message: 'The payment of this call was refunded. The key stays with it; use a new key to make the call again.',
  },
  payment_resolved_outside: {
    ...conflict,
    payment: 'settled',
    message:
      'The operator and the payer settled this call by other means. The key stays with it; use a new key to make the call again.',
  },
  payment_written_off: {
    ...conflict,
    payment: 'unknown',
    message:
      'The operator closed this call without a result and without another charge. The key stays with it; use a new key to make the call again.',
  },
  unpaid_debt: {
    ...conflict,
    message: 'An earlier call of this payer is completed but unpaid. First repeat it with a fresh payment.',
  },
  permit_already_used: {
    ...conflict,
    retry: 'new_payment',
    message:
      'Another payment of this payer uses the permit nonce of this one, so they settle one after the other. Repeat the request with a fresh payment after the delay in Retry-After. Where the challenge says info.lasting, a permit that lasts ends this: in each payment, or once by POST /v1/allowances.',
  },
  permit2_allowance_required: {
    status: 412,
    kind: 'payment',
    message:
      'Permit2 is not approved to spend the payer’s USDC. One signature changes this, without gas: GET /v1/allowances returns what to sign, POST /v1/allowances stores it for the next charge. Or send a permit with the payment, in its extension eip2612GasSponsoring.',
    retry: 'new_payment',
    payment: 'none',
  },
  body_too_large: {
    status: 413,
    kind: 'invalid_request',
    message: 'The request body is larger than any valid request.',
    retry: 'never',
    payment: 'none',
  },
  request_timeout: {
    status: 408,
    kind: 'invalid_request',
    message:
      'The request arrived too slowly: after 15 seconds a body must have arrived at 64 KiB per second on average. No payment was taken; repeat the request over a faster connection.',
    retry: 'same_request',
    payment: 'none',
  },
  unsupported_content_type: {
    status: 415,
    kind: 'invalid_request',
    message: 'Send application/json or multipart/form-data.',
    retry: 'never',
    payment: 'none',
  },
  unsupported_content_encoding: {
    status: 415,
    kind: 'invalid_request',
    message: 'The body has a content-encoding. Send it without compression and without the header content-encoding.',
    retry: 'never',
    payment: 'none',
  },
  expectation_failed: {
    status: 417,
    kind: 'invalid_request',
    message: 'The only supported expectation is 100-continue. Send the request without the header expect.',
    retry: 'never',
    payment: 'none',
  },
  result_expired: {
    status: 410,
    kind: 'not_found',
    message:
      'The result of this request is past its retention period. The receipt in X-Receipt-ID is still available with the token that came with the result.',
    retry: 'never',
    payment: 'settled',
  },
  rate_limited: {
    ...limited,
    message: 'Too many requests from this address. Nothing was charged; retry after the delay in Retry-After.',
  },
  open_exposure_limit: {
    ...limited,
    message: 'Too much work of this payer is in progress. Nothing was charged; retry when some of it has settled.',
  },
  funds_reserved: {
    ...limited,
    message:
      'The payer’s funds are reserved for other calls in progress. Nothing was charged; retry when they have settled, or add funds.',
  },
  uncharged_work_limit: {
    ...limited,
    retry: 'new_payment',
    message:
      'Too many calls of this payer ended without a charge. Nothing was charged; retry after the delay in Retry-After.',
  },
  settlement_retry_limit: {
    ...limited,
    message:
      'Several settlements of this payer were reverted on chain. The result is kept; pay for it after the delay in Retry-After, with funds that stay available until the settlement.',
  },
  new_payer_limit: {
    ...limited,
    message:
      'Payments that are not covered by earlier ones of their payers have too much in progress or unpaid at the moment. Nothing was charged; retry after the delay in Retry-After.',
  },
  model_unavailable: { ...unavailable, message: 'This model is currently unavailable. Nothing was charged.' },
  screening_unavailable: { ...uncharged, message: 'Safety screening is unavailable. Nothing was charged.' },
  capacity_exceeded: { ...unavailable, message: 'The service is busy. Nothing was charged; retry shortly.' },
  overloaded: {
    ...unavailable,
    message:
      'The service accepts no more work at the moment. No payment was taken; retry after the delay in Retry-After.',
  },
  receipt_unavailable: {
    ...unavailable,
    message:
      'This receipt is in the archive, which cannot be read at the moment. Nothing is lost and no money moved; retry after the delay in Retry-After.',
  },
  database_unavailable: { ...unavailable, message: 'The ledger is unavailable. Retry shortly.', payment: 'unknown' },
  media_unavailable: {
    ...unavailable,
    message: 'Media storage is unavailable. The call is paid for; repeat the same request.',
    payment: 'settled',
  },
  storage_unavailable: {
    ...unavailable,
    message: 'The storage of uploads and media is unavailable. Nothing was charged.',
  },
  payment_network_unavailable: {
    ...unavailable,
    message: 'The payment network is unreachable, so the payment was neither checked nor used. Nothing was charged.',
  },
  payment_network_fees_high: {
    ...unavailable,
    message:
      'Fees on the payment network are above what the service pays for a settlement, so the payment was neither checked nor used. Nothing was charged; repeat the same request with the same payment later.',
  },
  payment_state_unknown: {
    ...unavailable,
    message:
      'The payment network is unreachable, so it is not known whether this payment was settled before. Repeat the same request with the same payment; do not sign another one.',
    payment: 'unknown',
  },
  audio_inspection_unavailable: { ...unavailable, message: 'Audio inspection is unavailable. Nothing was charged.' },
  request_in_progress: {
    ...unavailable,
    message: 'The work is still in progress. Repeat the same request to receive its result; it is charged once.',
    payment: 'authorized',
  },
  settlement_pending: {
    ...unavailable,
    message: 'The work is done, but its settlement is not confirmed yet. Repeat the same request; it is charged once.',
    payment: 'unknown',
  },
  settlement_under_review: {
    ...unavailable,
    retry: 'never',
    message: 'The settlement of this request needs manual review. Contact the operator with the request id.',
    payment: 'unknown',
  },
  provider_unavailable: { ...uncharged, message: 'The model provider is unavailable. Nothing was charged.' },
  provider_rejected: {
    ...invalidRequest,
    message: 'The model provider rejects this input, and would reject it again. Nothing was charged.',
  },
  request_unsupported: {
    ...invalidRequest,
    message:
      'No provider of this model supports everything that this request asks for. Nothing was charged. Leave out an option, name another language or voice, shorten the input, or end the conversation with a user message.',
  },
  provider_outcome_unknown: {
    ...uncharged,
    message: 'The model provider did not finish this request. Nothing was charged.',
  },
  provider_empty_output: {
    ...uncharged,
    // The same request usually has the same outcome, and each repetition is unpaid work.
    retry: 'never',
    message: 'The model provider returned no usable output for this request. Nothing was charged. Change the request.',
  },
  authorization_too_short: {
    ...uncharged,
    message: 'The payment would have expired before its settlement, so the work was not started. Nothing was charged.',
  },
  work_not_started: {
    ...uncharged,
    message:
      'The work could not be started in time, because something that it depends on was unavailable. Nothing was charged; retry with a fresh payment.',
  },
  upload_expired: { ...uncharged, message: 'The staged upload is no longer readable. Nothing was charged.' },
  internal_error: {
    ...unavailable,
    message: 'The service failed unexpectedly. Repeat the same request; it is charged at most once.',
    payment: 'unknown',
  },
} as const satisfies Record<string, ErrorCodeEntry>

export type ErrorCode = keyof typeof ERROR_CODES
