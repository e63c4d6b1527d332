import { type JsonSchema } from '../schemas/json-schema.ts'

const text = { type: 'string' }
const constant = (value: string | number) => ({ type: typeof value === 'string' ? 'string' : 'integer', const: value })

function object(properties: Record<string, JsonSchema>, optional: readonly string[] = []): JsonSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name))
  return { type: 'object', properties, required }
}

/** The one error body of everything but 402 and 412. */
const errorSchema: JsonSchema = {
  ...object({
    type: constant('error'),
    error: object({
      type: { ...text, description: 'The kind of error in the names of the endpoint family.' },
      message: text,
      param: { type: ['string', 'null'], description: 'The field or header at fault.' },
      code: text,
      payment: {
        type: 'string',
        enum: ['none', 'authorized', 'settled', 'unknown'],
        description: 'Whether money moved.',
      },
      retry: {
        type: 'string',
        enum: ['never', 'same_request', 'new_payment'],
        description: 'What may usefully be sent next.',
      },
    }),
    request_id: text,
  }),
  description: 'The body of every failure except 402 and 412.',
}

/** The specified 402 body with the protocol's own fields mirrored beside it. */
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
      accepts: { type: 'array', items: { type: 'object' }, description: 'As in PAYMENT-REQUIRED.' },
      resource: { type: 'object' },
      extensions: { type: 'object' },
      code: { ...text, description: 'Why a given payment was not taken.' },
      payment: text,
      retry: text,
      request_id: text,
    },
    ['x402Version', 'accepts', 'resource', 'extensions', 'code', 'payment', 'retry', 'request_id'],
  ),
  description: 'The header PAYMENT-REQUIRED is authoritative where it differs in form.',
}

export const sharedSchemas: Record<string, JsonSchema> = {
  Error: errorSchema,
  PaymentRequired: paymentRequiredSchema,
}

function header(description: string, schema: JsonSchema = text) {
  return { description, schema }
}

export const headers = {
  'PAYMENT-REQUIRED': header('The x402 v2 challenge: base64 of JSON. Authoritative.'),
  'PAYMENT-RESPONSE': header('The x402 v2 settlement response: base64 of JSON.'),
  'X-Receipt-ID': header('The receipt of this call.', { type: 'string', format: 'uuid' }),
  'X-Receipt-Token': header('Bearer capability for the receipt. Store it securely.'),
  'X-Request-ID': header('Names this answer in support questions.'),
  'X-Catalog-Version': header('The catalog that the call was priced under.'),
  'Retry-After': header('Seconds until a retry makes sense.', { type: 'integer' }),
  ETag: header('Strong validator of the content.'),
  Allow: header('The methods of this route.'),
  'Content-Range': header('Which bytes of how many.'),
}

export const parameters = {
  IdempotencyKey: {
    name: 'x-idempotency-key',
    in: 'header',
    required: true,
    description:
      'Names the request: the same for the unpaid request, its signed retry and every repetition, and hard to guess.',
    schema: { type: 'string', pattern: '^[\\x21-\\x7e]{1,255}$', minLength: 1, maxLength: 255 },
  },
  PaymentSignature: {
    name: 'PAYMENT-SIGNATURE',
    in: 'header',
    required: false,
    description: 'The signed x402 v2 payment, base64 of JSON; absent on the unpaid request.',
    schema: text,
  },
}

type HeaderName = keyof typeof headers

/** References to documented headers, for a response. */
export function headerReferences(...names: readonly HeaderName[]) {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

function failure(description: string, ...names: readonly HeaderName[]) {
  return {
    description,
    headers: headerReferences('X-Request-ID', ...names),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  }
}

function challenge(description: string) {
  return {
    description,
    headers: headerReferences('X-Request-ID', 'PAYMENT-REQUIRED'),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/PaymentRequired' } } },
  }
}

/** Every failure by status; a route refers to the ones it can answer with. */
const failures = {
  400: failure('The request is invalid or unsupported; the message names the field and the rule.'),
  401: failure('A receipt is read with its token.'),
  402: challenge('Payment is required. Nothing was executed and nothing charged.'),
  404: failure('There is nothing here, or not for this token.'),
  409: failure('The x-idempotency-key or the payment belongs to a different request.'),
  410: failure('The result is past its retention; the receipt remains.'),
  412: challenge('Permit2 may not spend the payer’s USDC yet, and no gas-sponsored permit came along.'),
  413: failure('The body is larger than any valid one.'),
  415: failure('The content type is unknown.'),
  416: {
    description: 'The range lies outside of the media. Without a body.',
    headers: headerReferences('X-Request-ID', 'Content-Range'),
  },
  429: failure('Too many requests.', 'Retry-After'),
  503: failure('A provider, payment or safety dependency is unavailable.', 'Retry-After'),
}

export type FailureStatus = keyof typeof failures

export const responses = Object.fromEntries(
  Object.entries(failures).map(([status, response]) => [`Failure${status}`, response]),
)

/** References to the failures with these statuses. */
export function failureReferences(...statuses: readonly FailureStatus[]) {
  return Object.fromEntries(
    statuses.map((status) => [status.toString(), { $ref: `#/components/responses/Failure${status}` }]),
  )
}
