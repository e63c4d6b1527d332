import type { Catalog } from '#shared/catalog/catalog.ts'
import { type CategoryId, categoryOf } from '#shared/catalog/categories.ts'
import { priceBounds } from '#shared/catalog/price-bounds.ts'
import { operationById, operations } from '#shared/operations/registry.ts'
import { exampleRequest } from '../schemas/operation-schemas.ts'

/**
 * How to call, pay and retry, for agents: used in `info.x-guidance` and at the top of `/llms.txt`. Deliberately short.
 */
export const GUIDANCE = `Pay-per-request router for text, image, speech and transcription models. No account, no API key: each call is paid in USDC on eip155:8453 (Base) through x402 version 2, scheme "upto".

1. Read GET /v1/models. Only the models and endpoints listed there are available. GET /v1/pricing has the prices.
2. POST your request with the header x-idempotency-key: 1 to 255 visible ASCII characters, hard to guess, a new one for each new request, such as crypto.randomUUID(). A key belongs to one request (409 for another) until its challenge expires, and permanently once a call under it was accepted, unless that ended uncharged.
3. You receive a 402. Its header PAYMENT-REQUIRED (Base64-encoded JSON) is the authoritative challenge. Check network, asset, payTo, maxTimeoutSeconds and amount (the maximum, in millionths of a USDC) against your own spending limit.
4. Sign it with an official x402 v2 upto client and send the identical request with the same key and the header PAYMENT-SIGNATURE. The wallet needs USDC only: the payment carries a permit whose gas the service pays. For parallel calls sign once, without gas, a permit that lasts, explained in /llms.txt.
5. A 200 is sent once result, payment and receipt are stored. You are charged for measured usage, never more than the maximum. Keep X-Receipt-ID and X-Receipt-Token: GET /v1/receipts/{id} with "Authorization: Bearer <token>".
6. If the connection breaks, repeat the same request with the same key, and the same PAYMENT-SIGNATURE or a newly signed one: it is charged once. After a failure, error.retry says what to do next (never, same_request, new_payment) and error.payment whether money has moved (none, authorized, settled, unknown).

Offers in the 402 (extension offer-receipt), receipts in PAYMENT-RESPONSE and the receipt record are signed with the keys of /.well-known/did.json (the same in /.well-known/jwks.json). The receipt shows usage, unit prices and rounding, so that the charge can be recomputed.

stream must always be false. Hosted image URLs are valid for seven days, speech URLs for 24 hours; treat them as secrets. POST /v1/quotes prices a request without binding a key, and a recording from its hash, size and duration. GET /v1/balance?address=0x… reads a wallet's USDC.`

/** What is stored of a call and for how long, in the interface description and `/llms.txt`. */
export const DATA_HANDLING = `Results (text, transcripts, hosted URLs) are stored in plain text for replays: at least 24 hours, seven days unless the operator decides otherwise, and longer only while their payment is unsettled. The content of a request is erased when its result is final; a staged recording is encrypted, deleted after the provider's result, and unreadable after an hour in any case. Kept permanently: the receipt, the idempotency key, the payer's signature, and SHA-256 digests of request and result, from which a short request could be guessed. Erased content remains in the database's write-ahead log and backups until the operator's retention of those ends. Providers process requests under their own retention.`

/** Why and how to approve once, and how to send a recording once: what a caller needs beyond the first calls. */
const PARALLEL_CALLS = `By default each payment of a wallet without gas carries a permit, and only one such payment can be open at a time: further ones wait for it and then get 409 permit_already_used, to be repeated with a fresh payment. Before parallel calls, sign once: GET /v1/allowances?owner=0x… returns typed_data, an EIP-2612 permit of the USDC for Permit2 (spender 0x000000000022D473030F116dDEE9F6B43aC78BA3). Sign it and POST /v1/allowances {"permit": {...typed_data.message, "signature"}}. The service keeps it, and the next charge of the wallet brings it to the chain. From the answer on calls run in parallel, and permits that their payments carry are ignored. A 412 permit2_allowance_required brings the same in its member permit: sign permit.typed_data and send it to permit.submit.url. Where the 402 has "lasting": true in extensions.eip2612GasSponsoring.info, the signed permit, for any amount above the maximum, may also be sent in that extension of each payment until one is charged. The same GET returns the present allowance, the stored permit, what can be paid without another one, and whether the service would store one now (storing). Where permit.submit is null and storing says permits_not_stored, calls are paid one after another, each with a permit of exactly its maximum.`

const PRICE_FIRST = `POST /v1/quotes {"operation": "createSpeech", "request": {…}} prices the JSON body of an endpoint, with the operation's name as in the endpoints below. A recording need not be uploaded for its price: send "audio": {"sha256", "bytes", "duration_ms"} in place of audio_base64. With "challenge": true and the header x-idempotency-key the answer is the 402 itself: sign it, and send the recording for the first time with the signature. If the recording is not what was described, the answer is a new 402 with the true price, and nothing is charged.`

/** How an agent whose tools are MCP servers calls the same operations. */
const MCP_SERVER = `POST /mcp is an MCP server (streamable HTTP, no sessions, no account): the tools chat, generate_image, speak and transcribe, and the free quote. x402 travels in _meta: an unpaid call returns isError with the challenge in structuredContent; repeat the call, unchanged, with the signed PaymentPayload in _meta["x402/payment"]. A paid result has the endpoint's JSON in structuredContent, the settlement in _meta["x402/payment-response"] and the receipt's id and token in _meta["farebox/receipt"]. _meta["farebox/idempotency-key"] names the call, as the header x-idempotency-key does elsewhere; without one, the challenge brings a new key in its extension payment-identifier, which official clients repeat with the payment. Both are the same calls: a challenge of one can be paid at the other. Never send a private key.`

/** Requests that a shell can send as they stand: a price, and the challenge of the same call. */
export function tryCommands(
  catalog: Catalog,
  publicBaseUrl: string,
): readonly { readonly does: string; readonly command: string }[] {
  const operation = operations.find(({ category }) => priceOfCall(catalog, category) !== null)
  if (!operation) return []
  const { id, path } = operation
  const request = exampleRequest(operation, catalog)
  const post = (route: string, body: object, ...options: string[]) =>
    [
      `curl ${options.join(' ')}${new URL(route, publicBaseUrl).href}`,
      "-H 'content-type: application/json'",
      `-d '${JSON.stringify(body)}'`,
    ].join(' \\\n  ')
  return [
    { does: 'The price of a call', command: post('/v1/quotes', { operation: id, request }) },
    {
      does: 'The challenge to sign (402)',
      command: post(path, request, '-i', `-H "x-idempotency-key: $(uuidgen)"`, ''),
    },
  ]
}

/** Returns an endpoint's price of a call in USD, or `null` while none of its models is available. */
export function priceOfCall(catalog: Catalog, category: CategoryId): string | null {
  const bounds = priceBounds(catalog, category)
  if (!bounds) return null
  const { minimumChargeUsd: minimum, maximumChargeUsd: maximum } = bounds
  return minimum === maximum ? `${maximum} USD` : `${minimum} to ${maximum} USD`
}

/** Pages that a reader may want next. */
export const LINKS = [
  ['Interface description (OpenAPI 3.1)', '/openapi.json'],
  ['Reference', '/docs/'],
  ['Models', '/v1/models'],
  ['Prices', '/v1/pricing'],
  ['Voices', '/v1/audio/voices'],
  ['Skill for agents', '/SKILL.md'],
  ['Signing keys', '/.well-known/jwks.json'],
] as const

/** Returns `/llms.txt`: the guidance, the available endpoints with their price bounds, and links. */
export function llmsText(catalog: Catalog, publicBaseUrl: string): string {
  return page('# farebox', [
    GUIDANCE,
    ...section('Parallel calls: approve once', PARALLEL_CALLS),
    ...section('Price first, upload once', PRICE_FIRST),
    ...section('MCP', MCP_SERVER),
    ...section('Endpoints', endpointList(catalog)),
    ...section('Try it', commandList(catalog, publicBaseUrl)),
    ...section('Data', DATA_HANDLING),
    ...section('More', linkList(publicBaseUrl)),
  ])
}

/** Returns `/SKILL.md`: the same for an agent that keeps it, with a program to begin with. */
export function skillText(catalog: Catalog, publicBaseUrl: string, network: string): string {
  const head = [
    '---',
    'name: farebox',
    `description: Calls text, image, speech and transcription models at ${new URL(publicBaseUrl).origin} and pays each call in USDC (x402 version 2, scheme upto). Use it for a model call without an account or API key.`,
    '---',
    '',
    '# farebox: quote, pay, keep the receipt',
  ]
  return page(head.join('\n'), [
    GUIDANCE,
    ...section('First call', firstCall(catalog, publicBaseUrl, network)),
    ...section('Price first, upload once', PRICE_FIRST),
    ...section('Parallel calls: approve once', PARALLEL_CALLS),
    ...section('MCP', MCP_SERVER),
    ...section('Endpoints', endpointList(catalog)),
    ...section('Data', DATA_HANDLING),
    ...section('More', linkList(publicBaseUrl)),
  ])
}

function page(head: string, paragraphs: readonly string[]): string {
  return `${[head, ...paragraphs].join('\n\n')}\n`
}

function section(title: string, text: string): readonly string[] {
  return [`## ${title}`, text]
}

function endpointList(catalog: Catalog): string {
  const endpoints = operations.flatMap(({ id, path, category }) => {
    const price = priceOfCall(catalog, category)
    if (price === null) return []
    const models = catalog.models.filter((model) => model.category === category).map((model) => model.id)
    const { description } = categoryOf(category)
    return [`- POST ${path} (${id}, ${price} a call): ${description} Models: ${models.join(', ')}.`]
  })
  return endpoints.join('\n')
}

function linkList(publicBaseUrl: string): string {
  return LINKS.map(([title, path]) => `- [${title}](${new URL(path, publicBaseUrl).href})`).join('\n')
}

function commandList(catalog: Catalog, publicBaseUrl: string): string {
  return tryCommands(catalog, publicBaseUrl)
    .map(({ does, command }) => `${does}:\n\n\`\`\`sh\n${command}\n\`\`\``)
    .join('\n\n')
}

/**
 * Returns the first paid call in three steps, as Markdown. The program is complete and runs as it stands: it is all that
 * most callers read before they pay.
 */
export function firstCall(catalog: Catalog, publicBaseUrl: string, network: string): string {
  return [
    'The first paid call takes three steps:',
    '',
    '1. Have a wallet with USDC on Base. One USDC pays for hundreds of short calls. It needs no ETH and no token approval.',
    '2. `npm install @x402/fetch @x402/evm viem`, and save this program as `first-call.mts`:',
    '',
    '```ts',
    program(catalog, publicBaseUrl, network),
    '```',
    '',
    '3. `PRIVATE_KEY=0x… node first-call.mts` (Node 24) asks for the price (402), signs it, repeats the request with the signature, and prints the answer and the receipt of what it was charged. `RPC_URL` names another node of Base than the public one.',
  ].join('\n')
}

function program(catalog: Catalog, publicBaseUrl: string, network: string): string {
  const operation = operationById('createChatCompletion')
  const body = JSON.stringify(exampleRequest(operation, catalog), null, 2).replaceAll('\n', '\n  ')
  const { origin } = new URL(publicBaseUrl)
  return `import { UptoEvmScheme } from '@x402/evm/upto/client'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'

const origin = '${origin}'
const account = privateKeyToAccount(process.env['PRIVATE_KEY'] as \`0x\${string}\`)
const rpcUrl = process.env['RPC_URL'] ?? 'https://mainnet.base.org'
const client = new x402Client().register('${network}', new UptoEvmScheme(account, { rpcUrl }))
// Pays at most 1 USDC for a call, unless you set another limit with client.setSpendControls().
const payingFetch = wrapFetchWithPayment(fetch, client)

const response = await payingFetch(\`\${origin}${operation.path}\`, {
  method: 'POST',
  // A new key for each new request. Repeating a request with its key is charged once.
  headers: { 'content-type': 'application/json', 'x-idempotency-key': crypto.randomUUID() },
  body: JSON.stringify(${body}),
})
const answer = await response.text()
if (!response.ok) throw new Error(answer)
console.log(answer)

const receipt = await fetch(\`\${origin}/v1/receipts/\${response.headers.get('x-receipt-id')}\`, {
  headers: { authorization: \`Bearer \${response.headers.get('x-receipt-token')}\` },
})
console.log(await receipt.text())`
}
