import type { Catalog } from '#shared/catalog/catalog.ts'
import { categoryOf } from '#shared/catalog/categories.ts'
import { priceBounds } from '#shared/catalog/price-bounds.ts'
import { operations } from '#shared/operations/registry.ts'

/**
 * How to call, pay and retry, for agents: used in `info.x-guidance` and at the top of `/llms.txt`. Deliberately short.
 */
export const GUIDANCE = `Pay-per-request router for text, image, speech and transcription models. No account, no API key: each call is paid in USDC on eip155:8453 (Base) through x402 version 2, scheme "upto".

1. Read GET /v1/models. Only the models and endpoints listed there are available. GET /v1/pricing has the prices.
2. POST your request with the header x-idempotency-key: 1 to 255 visible ASCII characters, hard to guess, a new one for each new request. A key belongs to one request (409 for another) until its challenge expires, and permanently once a call under it was accepted, unless that ended uncharged.
3. You receive a 402. Its header PAYMENT-REQUIRED (Base64-encoded JSON) is the authoritative challenge. Check network, asset, payTo, maxTimeoutSeconds and amount (the maximum, in millionths of a USDC) against your own spending limit.
4. Sign it with an official x402 v2 upto client and send the identical request with the same key and the header PAYMENT-SIGNATURE. The first payment may carry a gas-sponsored permit, so the wallet needs USDC only.
5. A 200 is sent once result, payment and receipt are stored. You are charged for measured usage, never more than the maximum. Keep X-Receipt-ID and X-Receipt-Token: GET /v1/receipts/{id} with "Authorization: Bearer <token>".
6. If the connection breaks, repeat the same request with the same key, and the same PAYMENT-SIGNATURE or a newly signed one: it is charged once. After a failure, error.retry says what to do next (never, same_request, new_payment) and error.payment whether money has moved (none, authorized, settled, unknown).

Offers in the 402 (extension offer-receipt), receipts in PAYMENT-RESPONSE and the receipt record are signed with the keys of /.well-known/did.json (the same in /.well-known/jwks.json). The receipt shows usage, unit prices and rounding, so that the charge can be recomputed.

stream must always be false. Hosted image URLs are valid for seven days, speech URLs for 24 hours; treat them as secrets. POST /v1/quotes prices a request without binding a key. GET /v1/balance?address=0x… reads a wallet's USDC.`

/** What is stored of a call and for how long, in the interface description and `/llms.txt`. */
export const DATA_HANDLING = `Results (text, transcripts, hosted URLs) are stored in plain text for replays: at least 24 hours, seven days unless the operator decides otherwise, and longer only while their payment is unsettled. The content of a request is erased when its result is final; a staged recording is encrypted, deleted after the provider's result, and unreadable after an hour in any case. Kept permanently: the receipt, the idempotency key, the payer's signature, and SHA-256 digests of request and result, from which a short request could be guessed. Erased content remains in the database's write-ahead log and backups until the operator's retention of those ends. Providers process requests under their own retention.`

/** Returns `/llms.txt`: the guidance, the available endpoints with their price bounds, and links. */
export function llmsText(catalog: Catalog, publicBaseUrl: string): string {
  const endpoints = operations.flatMap(({ path, category }) => {
    const bounds = priceBounds(catalog, category)
    if (!bounds) return []
    const { minimumChargeUsd: minimum, maximumChargeUsd: maximum } = bounds
    const price = minimum === maximum ? `${maximum} USD` : `${minimum} to ${maximum} USD`
    const models = catalog.models.filter((model) => model.category === category).map(({ id }) => id)
    const { description } = categoryOf(category)
    return [`- POST ${path} (${price} a call): ${description} Models: ${models.join(', ')}.`]
  })
  const link = (title: string, path: string) => `- [${title}](${new URL(path, publicBaseUrl).href})`
  return [
    '# farebox',
    '',
    GUIDANCE,
    '',
    '## Endpoints',
    '',
    ...endpoints,
    '',
    '## Data',
    '',
    DATA_HANDLING,
    '',
    '## More',
    '',
    link('Interface description (OpenAPI 3.1)', '/openapi.json'),
    link('Reference', '/docs'),
    link('Models', '/v1/models'),
    link('Prices', '/v1/pricing'),
    link('Voices', '/v1/audio/voices'),
    link('Signing keys', '/.well-known/jwks.json'),
    '',
  ].join('\n')
}
