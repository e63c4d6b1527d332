import { approvalSchema, requiredPermitSchema } from '../schemas/allowances.ts'
import { type JsonSchema, jsonSchemaOf } from '../schemas/json-schema.ts'

const text = { type: 'string' }
const constant = (value: string | number) => ({ type: typeof value === 'string' ? 'string' : 'integer', const: value })

function object(properties: Record<string, JsonSchema>, optional: readonly string[] = []): JsonSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name))
  return { type: 'object', properties, required }
}

/** The error body of every failure except 402 and 412. */
const errorSchema: JsonSchema = {
  ...object({
    type: constant('error'),
    error: object({
      type: { ...text, description: 'The kind of error, in the terms of the endpoint family.' },
      message: text,
      param: { type: ['string', 'null'], description: 'The field or header that caused the error.' },
      code: text,
      payment: {
        type: 'string',
        enum: ['none', 'authorized', 'settled', 'unknown'],
        description: 'Whether money has moved.',
      },
      retry: {
        type: 'string',
        enum: ['never', 'same_request', 'new_payment'],
        description: 'Whether to retry, and with which payment.',
      },
    }),
    request_id: text,
  }),
  description: 'The body of every failure except 402 and 412.',
}

/** The 402 body (test/contract/specification.ts, L3), with the protocol's own fields mirrored next to it. */
const paymentRequiredSchema: JsonSchema = {
  ...object(
    {
      error: constant('Payment Required'),
      message: text,
      price: object({
        amount: { ...text, description: 'Decimal USDC.' },
        currency: constant('USDC'),
        type: constant('maximum'),
      }),
      paymentInfo: object({
        x402Version: constant(2),
        scheme: constant('upto'),
        network: text,
        asset: text,
      }),
      x402Version: constant(2),
      accepts: { type: 'array', items: { type: 'object' }, description: 'The same as in PAYMENT-REQUIRED.' },
      resource: { type: 'object' },
      extensions: { type: 'object' },
      code: { ...text, description: 'Why the presented payment was refused.' },
      payment: text,
      retry: text,
      permit: jsonSchemaOf(requiredPermitSchema, 'output'),
      approval: jsonSchemaOf(approvalSchema, 'output'),
      request_id: text,
    },
    [
      'x402Version',
      'accepts',
      'resource',
      'extensions',
      'code',
      'payment',
      'retry',
      'permit',
      'approval',
      'request_id',
    ],
  ),
  description: 'The challenge. The header PAYMENT-REQUIRED is authoritative wherever this body differs from it.',
}

export const sharedSchemas: Record<string, JsonSchema> = {
  Error: errorSchema,
  PaymentRequired: paymentRequiredSchema,
}

function header(description: string, schema: JsonSchema = text) {
  return { description, schema }
}

/** A header of a 200 whose body is the media itself; JSON has the same in its body. */
function mediaHeader(description: string, schema: JsonSchema) {
  return { ...header(`Only with the MP3 as the body. ${description}`, schema), required: false }
}

/** A header of every call that is paid for. */
function paymentHeader(description: string, schema?: JsonSchema) {
  return { ...header(`${description} Absent only with X-Resolution.`, schema), required: false }
}

export const headers = {
  'PAYMENT-REQUIRED': header('The x402 v2 challenge as Base64-encoded JSON. Authoritative.'),
  'PAYMENT-RESPONSE': paymentHeader('The x402 v2 settlement response as Base64-encoded JSON.'),
  'X-Receipt-ID': paymentHeader('The id of this call’s receipt.', { type: 'string', format: 'uuid' }),
  'X-Receipt-Token': paymentHeader('The bearer token of the receipt. Store it securely.'),
  'X-Resolution': {
    ...header(
      'Only with a result that the operator returned after a review, without a charge: it has neither payment nor receipt.',
      { type: 'string', enum: ['re_served'] },
    ),
    required: false,
  },
  'X-Request-ID': header('Identifies this response in support requests.'),
  'X-Catalog-Version': header('The version of the catalog that the call was priced with.'),
  'Retry-After': header('Seconds to wait before a retry.', { type: 'integer' }),
  'X-Media-URL': mediaHeader('Where it is hosted. A capability.', { type: 'string', format: 'uri' }),
  'X-Media-Expires-At': mediaHeader('When that URL expires.', { type: 'string', format: 'date-time' }),
  'X-Audio-Duration-Ms': mediaHeader('Its duration.', { type: 'integer' }),
  'X-Input-Characters': mediaHeader('The characters that were charged.', { type: 'integer' }),
  ETag: header('A strong validator of the content.'),
  Allow: header('The methods of this route.'),
  'Content-Range': header('The range of bytes in this response, and the total size.'),
}

export const parameters = {
  IdempotencyKey: {
    name: 'x-idempotency-key',
    in: 'header',
    required: true,
    description:
      'Identifies the request. Send the same key with the unpaid request, its signed retry and every repetition. Must be hard to guess. Another request under the key gets 409 while its challenge is valid, and permanently once a call under it was accepted that did not end uncharged.',
    schema: { type: 'string', pattern: '^[\\x21-\\x7e]{1,255}$', minLength: 1, maxLength: 255 },
  },
  PaymentSignature: {
    name: 'PAYMENT-SIGNATURE',
    in: 'header',
    required: false,
    description: 'The signed x402 v2 payment as Base64-encoded JSON; absent on the unpaid request.',
    schema: text,
  },
}

type HeaderName = keyof typeof headers

/** Returns references to documented headers, for a response. */
export function headerReferences(...names: readonly HeaderName[]) {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

/** The response to a caller whose copy is current, of every page with an `ETag`. */
export const NOT_MODIFIED = {
  '304': { description: 'The client’s copy is current.', headers: headerReferences('X-Request-ID', 'ETag') },
}

/** Returns the content of a JSON body with a schema of the components. */
export function jsonOf(schemaName: string) {
  return { 'application/json': { schema: { $ref: `#/components/schemas/${schemaName}` } } }
}

function failure(description: string, ...names: readonly HeaderName[]) {
  return {
    description,
    headers: headerReferences('X-Request-ID', ...names),
    content: jsonOf('Error'),
  }
}

/** Sent with the challenge that answers a refused payment, and with no other. */
const RETRY_AFTER_REFUSAL = {
  ...header('After a refused payment: seconds to wait before the same payment is verified again.', { type: 'integer' }),
  required: false,
}

function challenge(description: string) {
  return {
    description,
    headers: { ...headerReferences('X-Request-ID', 'PAYMENT-REQUIRED'), 'Retry-After': RETRY_AFTER_REFUSAL },
    content: jsonOf('PaymentRequired'),
  }
}

/** Every failure by status; a route refers to those that it can answer with. */
const failures = {
  400: failure('The request is invalid or unsupported; the message names the field and the rule.'),
  401: failure('The receipt’s token is required.'),
  402: challenge('Payment is required. Nothing was executed and nothing was charged.'),
  404: failure('Not found, or not accessible with this token.'),
  408: failure('The request arrived too slowly.'),
  409: failure(
    'The x-idempotency-key or the payment belongs to a different request, or the operator ended this call: payment_refunded names the transaction of the refund.',
  ),
  410: failure(
    'The result, or with an Accept header for media its hosted file, is past its retention period. X-Receipt-ID names the receipt, which is still available.',
  ),
  412: challenge(
    'Permit2 may take too little of the payer’s USDC, and the payment includes no permit. The member `permit` has what to sign, and where it is stored.',
  ),
  413: failure('The body is larger than any valid request.'),
  415: failure('The content type, the charset or the content encoding is not supported.'),
  416: {
    description: 'The range lies outside of the media. The response has no body.',
    headers: headerReferences('X-Request-ID', 'Content-Range'),
  },
  429: failure('Too many requests, or too much work of this payer is open.', 'Retry-After'),
  503: failure('A provider, payment or safety dependency is unavailable.', 'Retry-After'),
}

export type FailureStatus = keyof typeof failures

export const responses = Object.fromEntries(
  Object.entries(failures).map(([status, response]) => [`Failure${status}`, response]),
)

/** Returns references to the failures with these statuses. */
export function failureReferences(...statuses: readonly FailureStatus[]) {
  return Object.fromEntries(
    statuses.map((status) => [status.toString(), { $ref: `#/components/responses/Failure${status}` }]),
  )
}
