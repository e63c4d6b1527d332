import {
  declareEip2612GasSponsoringExtension,
  declarePaymentIdentifierExtension,
  isValidIconUrl,
  PAYMENT_IDENTIFIER,
} from '@x402/extensions'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { CategoryId } from '#shared/catalog/categories.ts'
import { type AnyOperation, type OperationId, operations } from '#shared/operations/registry.ts'
import { type CurrentCatalog, derived } from '../../request/live-catalog.ts'
import { type JsonSchema, outlineSchema } from '../../schemas/json-schema.ts'
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
   * Return the `extensions` other than the offer. The example of a call has a new idempotency key each time: callers
   * that copy the same example must not compete for one key.
   */
  readonly probeExtensions: () => string
  /** Shorter, since clients repeat a priced 402's extensions in the header of their payment. */
  readonly pricedExtensions: () => string
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
  const { catalog, publicBaseUrl } = input
  const url = resourceUrl(operation, publicBaseUrl)
  const iconUrl = new URL('/favicon.svg', publicBaseUrl).href
  const inForce = (serialize: (current: Catalog) => () => string) => {
    const serialized = derived(catalog, serialize)
    return () => serialized()()
  }
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
    probeExtensions: inForce((current) => serializeExtensions(describeCall(operation, current), input)),
    pricedExtensions: inForce((current) => serializeExtensions(describeCallBriefly(operation, current), input)),
  }
}

function serializeExtensions(
  bazaar: object,
  { newKey, takesLastingPermits }: Pick<ListingInput, 'newKey' | 'takesLastingPermits'>,
): () => string {
  const sponsoring = takesLastingPermits ? LASTING_GAS_SPONSORING : GAS_SPONSORING
  const extensions = { ...sponsoring, [PAYMENT_IDENTIFIER]: declarePaymentIdentifierExtension(false), bazaar }
  const [before = '', after = ''] = JSON.stringify(extensions).split(KEY_PLACEHOLDER)
  return () => before + newKey() + after
}

/** The package's declaration without prose. */
const GAS_SPONSORING = withoutSchemaDescriptions(declareEip2612GasSponsoringExtension())

/**
 * The same, and that `amount` may be more than the payment's maximum. Official clients sign for exactly the maximum, copy
 * what `info` has and read nothing of it.
 */
const LASTING_GAS_SPONSORING = {
  eip2612GasSponsoring: {
    ...GAS_SPONSORING.eip2612GasSponsoring,
    info: { ...GAS_SPONSORING.eip2612GasSponsoring.info, lasting: true },
  },
}

interface GasSponsoringDeclaration {
  readonly eip2612GasSponsoring: { readonly info: object; readonly schema: unknown }
}

function withoutSchemaDescriptions(declared: object): GasSponsoringDeclaration {
  const { eip2612GasSponsoring } = declared as GasSponsoringDeclaration
  const schema: unknown = JSON.parse(JSON.stringify(eip2612GasSponsoring.schema, omitDescription))
  return { eip2612GasSponsoring: { ...eip2612GasSponsoring, schema } }
}

function omitDescription(key: string, value: unknown): unknown {
  return key === 'description' ? undefined : value
}

/**
 * Returns the `bazaar` extension: an example call, valid as it stands, its result, and the request's schema in outline.
 * Written here and not by the package, whose version has no headers. Source: x402 specification, extension bazaar.
 */
function describeCall(operation: AnyOperation, catalog: Catalog) {
  const headers = { type: 'object', properties: { [KEY_HEADER]: KEY_SCHEMA }, required: [KEY_HEADER] }
  const body = outlineSchema(jsonRequestSchema(operation, catalog), PROBE_DEPTH)
  return {
    info: {
      input: exampleCall(operation, catalog),
      output: { type: 'json', example: operation.resultExample },
    },
    schema: callSchema({
      type: { const: 'http' },
      method: { const: 'POST' },
      bodyType: { const: 'json' },
      headers,
      body,
    }),
  }
}

/** Returns the same with a schema that only requires what is required: the caller has sent a valid request. */
function describeCallBriefly(operation: AnyOperation, catalog: Catalog) {
  const { required } = jsonRequestSchema(operation, catalog)
  return {
    info: { input: exampleCall(operation, catalog) },
    schema: callSchema({ headers: { type: 'object', required: [KEY_HEADER] }, body: { type: 'object', required } }),
  }
}

function exampleCall(operation: AnyOperation, catalog: Catalog) {
  const headers = { [KEY_HEADER]: KEY_PLACEHOLDER }
  return { type: 'http', method: 'POST', bodyType: 'json', headers, body: exampleRequest(operation, catalog) }
}

function callSchema(properties: JsonSchema): JsonSchema {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: {
      input: { type: 'object', properties, required: ['type', 'method', 'bodyType', 'headers', 'body'] },
      output: { type: 'object', properties: { type: { type: 'string' }, example: { type: 'object' } } },
    },
    required: ['input'],
  }
}

/** Returns the URL that a challenge names as the resource to be paid for. */
export function resourceUrl({ path }: Pick<AnyOperation, 'path'>, publicBaseUrl: string): string {
  return new URL(path, publicBaseUrl).href
}
