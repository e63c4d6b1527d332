import { declareEip2612GasSponsoringExtension, isValidIconUrl, PAYMENT_IDENTIFIER } from '@x402/extensions'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { CategoryId } from '#shared/catalog/categories.ts'
import { type AnyOperation, type OperationId, operations } from '#shared/operations/registry.ts'
import { EXTENSION_SCHEMA } from '#shared/payment/offer-receipt.ts'
import { type CurrentCatalog, derived } from '../../request/live-catalog.ts'
import { outlineSchema } from '../../schemas/json-schema.ts'
import { exampleRequest, jsonRequestSchema } from '../../schemas/operation-schemas.ts'

/**
 * Shows every field with its type and limits. The whole schemas, which are in /openapi.json, would overflow the header.
 */
const PROBE_DEPTH = 3

const KEY_HEADER = 'x-idempotency-key'
const KEY_SCHEMA = {
  type: 'string',
  minLength: 1,
  maxLength: 255,
  description: 'A new UUID for each call, the same for its signed retry',
}

/**
 * Search terms of listing services, which keep five of at most 32 characters. Not in the catalog, whose version would
 * change with them.
 */
const TAGS: Readonly<Record<CategoryId, readonly string[]>> = {
  text_generation: ['ai', 'llm', 'chat', 'vision'],
  image_generation: ['ai', 'image', 'text-to-image'],
  text_to_speech: ['ai', 'speech', 'text-to-speech', 'tts'],
  speech_to_text: ['ai', 'transcription', 'speech-to-text'],
}

/** Where the random key of an example goes in the serialized extension. */
const KEY_PLACEHOLDER = '{idempotency key}'

/** The part of an operation's 402s that is the same for every request, as JSON that is serialized once. */
export interface Listing {
  readonly url: string
  /** The member `resource`: what listing services show about the endpoint. */
  readonly resource: string
  /**
   * Returns the `extensions` of a probe's 402: an example of a call. Its idempotency key is new each time: callers that copy
   * the same example must not compete for one key.
   */
  readonly probeExtensions: () => string
  /**
   * Those of a priced 402 other than the offer. Without the example: the caller has sent a valid request, and repeats all
   * extensions in the header of the payment.
   */
  readonly pricedExtensions: string
}

/** The listings of all operations. */
export type Listings = Readonly<Record<OperationId, Listing>>

interface ListingInput {
  /** The available models, which the examples are for. */
  readonly catalog: CurrentCatalog
  readonly publicBaseUrl: string
  readonly newKey: () => string
  /** Whether payments may bring a permit that lasts: see `PaymentTerms.settlementContract`. */
  readonly takesLastingPermits: boolean
}

/** Serializes the listings of all operations. */
export function createListings(input: ListingInput): Listings {
  const entries = operations.map((operation) => [operation.id, createListing(operation, input)])
  return Object.fromEntries(entries) as Listings
}

function createListing(operation: AnyOperation, input: ListingInput): Listing {
  const { catalog, publicBaseUrl, newKey } = input
  const url = resourceUrl(operation, publicBaseUrl)
  const iconUrl = new URL('/favicon.svg', publicBaseUrl).href
  const probed = derived(catalog, (current) =>
    JSON.stringify({ bazaar: describeCall(operation, current) }).split(KEY_PLACEHOLDER),
  )
  return {
    url,
    resource: JSON.stringify({
      url,
      description: operation.summary,
      mimeType: 'application/json',
      serviceName: 'farebox',
      tags: TAGS[operation.category],
      // Listing services drop icons of hosts that they cannot reach, such as a sandbox's.
      ...(isValidIconUrl(iconUrl) ? { iconUrl } : {}),
    }),
    probeExtensions: () => probed().join(newKey()),
    pricedExtensions: JSON.stringify(declareExtensions(input)),
  }
}

/**
 * Declares the extensions of a challenge that can be paid: permits that travel with a payment, and an identifier that
 * equals the idempotency key. `lasting` says that a permit's `amount` may be more than the payment's maximum: official
 * clients sign for exactly the maximum, copy what `info` has and read nothing of it.
 */
function declareExtensions({ takesLastingPermits }: Pick<ListingInput, 'takesLastingPermits'>) {
  const { eip2612GasSponsoring: declared } = declareEip2612GasSponsoringExtension()
  const info = { ...declared?.info, ...(takesLastingPermits ? { lasting: true } : {}) }
  return {
    eip2612GasSponsoring: { info, schema: EXTENSION_SCHEMA },
    [PAYMENT_IDENTIFIER]: { info: { required: false }, schema: EXTENSION_SCHEMA },
  }
}

/**
 * Returns the `bazaar` extension: an example call, valid as it stands, its result, and the request's schema in outline.
 * Written here and not by the package, whose version has no headers. Source: x402 specification, extension bazaar.
 */
function describeCall(operation: AnyOperation, catalog: Catalog) {
  const headers = { properties: { [KEY_HEADER]: KEY_SCHEMA }, required: [KEY_HEADER] }
  const body = outlineSchema(jsonRequestSchema(operation, catalog), PROBE_DEPTH)
  return {
    info: {
      input: {
        type: 'http',
        method: 'POST',
        bodyType: 'json',
        headers: { [KEY_HEADER]: KEY_PLACEHOLDER },
        body: exampleRequest(operation, catalog),
      },
      output: { type: 'json', example: operation.resultExample },
    },
    schema: {
      type: 'object',
      properties: {
        input: { properties: { headers, body }, required: ['headers', 'body'] },
        output: { properties: { example: {} } },
      },
      required: ['input'],
    },
  }
}

/** Returns the URL that a challenge names as the resource to be paid for. */
export function resourceUrl({ path }: Pick<AnyOperation, 'path'>, publicBaseUrl: string): string {
  return new URL(path, publicBaseUrl).href
}
