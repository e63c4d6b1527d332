import type { Catalog } from '#shared/catalog/catalog.ts'
import { priceBounds } from '#shared/catalog/price-bounds.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { hoistDefinitions, type JsonSchema } from '../schemas/json-schema.ts'
import { jsonRequestSchema, multipartRequestSchema, resultSchemaOf } from '../schemas/operation-schemas.ts'
import { failureReferences, headerReferences } from './components.ts'

/** A part of the document: path items, and the schemas that they refer to. */
export interface DocumentPart {
  readonly paths: Record<string, unknown>
  readonly schemas: Record<string, JsonSchema>
}

/** Describes the paid endpoints by the operations' schemas. */
export function paidPaths(operations: readonly AnyOperation[], catalog: Catalog, terms: PaymentTerms): DocumentPart {
  return {
    paths: Object.fromEntries(
      operations.map((operation) => [operation.path, { post: paidOperation(operation, catalog, terms) }]),
    ),
    schemas: Object.assign({}, ...operations.map(schemasOf)) as Record<string, JsonSchema>,
  }
}

/** Returns the component name: `createSpeech` has the schemas `CreateSpeechRequest` and `CreateSpeechResult`. */
function schemaName(id: string, kind: 'Request' | 'FormRequest' | 'Result'): string {
  return `${id.charAt(0).toUpperCase()}${id.slice(1)}${kind}`
}

function schemasOf(operation: AnyOperation): Record<string, JsonSchema> {
  const form = multipartRequestSchema(operation)
  return {
    ...hoistDefinitions(schemaName(operation.id, 'Request'), jsonRequestSchema(operation)),
    ...(form ? hoistDefinitions(schemaName(operation.id, 'FormRequest'), form) : {}),
    ...hoistDefinitions(schemaName(operation.id, 'Result'), resultSchemaOf(operation)),
  }
}

function paidOperation(operation: AnyOperation, catalog: Catalog, terms: PaymentTerms) {
  const { id, summary, description, category, requestExample, resultExample, mediaResponse } = operation
  const reference = (kind: 'Request' | 'FormRequest' | 'Result') => ({
    $ref: `#/components/schemas/${schemaName(id, kind)}`,
  })
  return {
    operationId: id,
    summary,
    description,
    tags: [category],
    security: [],
    'x-payment-info': paymentInfo(operation, catalog, terms),
    parameters: [
      { $ref: '#/components/parameters/IdempotencyKey' },
      { $ref: '#/components/parameters/PaymentSignature' },
    ],
    requestBody: {
      required: true,
      content: {
        'application/json': { schema: reference('Request'), example: requestExample },
        ...(operation.upload ? { 'multipart/form-data': { schema: reference('FormRequest') } } : {}),
      },
    },
    responses: {
      '200': {
        description: 'The result. Result, payment and receipt are stored.',
        headers: headerReferences(
          ...(['X-Request-ID', 'X-Receipt-ID', 'X-Receipt-Token', 'PAYMENT-RESPONSE', 'X-Catalog-Version'] as const),
        ),
        content: {
          'application/json': { schema: reference('Result'), example: resultExample },
          ...(mediaResponse ? { [mediaResponse.contentType]: { schema: { type: 'string', format: 'binary' } } } : {}),
        },
      },
      ...failureReferences(400, 402, 409, 410, 412, 413, 415, 429, 503),
    },
  }
}

/**
 * Returns price bounds and protocol in the format of discovery services (agentcash discovery specification, section 7).
 */
function paymentInfo({ id, category }: AnyOperation, catalog: Catalog, terms: PaymentTerms) {
  const bounds = priceBounds(catalog, category)
  if (!bounds) throw new Error(`the catalog has no model to price ${id} with`)
  const { minimumChargeUsd: min, maximumChargeUsd: max } = bounds
  return {
    price:
      min === max ? { mode: 'fixed', currency: 'USD', amount: max } : { mode: 'dynamic', currency: 'USD', min, max },
    protocols: [{ x402: { version: 2, scheme: 'upto', network: terms.network, asset: terms.asset } }],
  }
}
