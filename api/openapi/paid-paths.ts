import type { Catalog } from '#shared/catalog/catalog.ts'
import { type PriceBounds, priceBounds } from '#shared/catalog/price-bounds.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
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
    schemas: Object.assign({}, ...operations.map((operation) => schemasOf(operation, catalog))) as Record<
      string,
      JsonSchema
    >,
  }
}

/** Returns the component name: `createSpeech` has the schemas `CreateSpeechRequest` and `CreateSpeechResult`. */
function schemaName(id: string, kind: 'Request' | 'FormRequest' | 'Result'): string {
  return `${id.charAt(0).toUpperCase()}${id.slice(1)}${kind}`
}

function schemasOf(operation: AnyOperation, catalog: Catalog): Record<string, JsonSchema> {
  const form = multipartRequestSchema(operation, catalog)
  return {
    ...hoistDefinitions(schemaName(operation.id, 'Request'), jsonRequestSchema(operation, catalog)),
    ...(form ? hoistDefinitions(schemaName(operation.id, 'FormRequest'), form) : {}),
    ...hoistDefinitions(schemaName(operation.id, 'Result'), resultSchemaOf(operation)),
  }
}

/** The headers of a 200 whose body is the media itself. */
const MEDIA_HEADERS = ['X-Media-URL', 'X-Media-Expires-At', 'X-Audio-Duration-Ms', 'X-Input-Characters'] as const

/** The rules of every body that no schema of a single field states. */
const BODY_RULES =
  'JSON in UTF-8 with at most 64 levels of nesting and 200,000 values, in which no object repeats a name. No text, names of properties included, may contain U+0000 or a lone surrogate. Anything else is answered with 400 before the price.'

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
      description: BODY_RULES,
      content: {
        'application/json': { schema: reference('Request'), example: requestExample },
        ...(operation.upload ? { 'multipart/form-data': { schema: reference('FormRequest') } } : {}),
      },
    },
    responses: {
      '200': {
        description: 'The result. Result, payment and receipt are stored.',
        headers: headerReferences(
          ...([
            'X-Request-ID',
            'X-Receipt-ID',
            'X-Receipt-Token',
            'PAYMENT-RESPONSE',
            'X-Catalog-Version',
            'X-Resolution',
          ] as const),
          ...(mediaResponse ? MEDIA_HEADERS : []),
        ),
        content: {
          'application/json': { schema: reference('Result'), example: resultExample },
          ...(mediaResponse ? { [mediaResponse.contentType]: { schema: { type: 'string', format: 'binary' } } } : {}),
        },
      },
      ...failureReferences(400, 402, 408, 409, 410, 412, 413, 415, 429, 503),
    },
  }
}

/**
 * An operator may have disabled every model of a category: the description, which does not change with availability,
 * then states the standard bounds.
 */
function boundsOf({ category }: AnyOperation, catalog: Catalog): PriceBounds {
  const bounds = priceBounds(catalog, category) ?? priceBounds(publishedCatalog, category)
  if (!bounds) throw new Error(`there is no model of ${category} to state a price for`)
  return bounds
}

/**
 * Returns price bounds and protocol in the format of discovery services (agentcash discovery specification, section 7).
 */
function paymentInfo(operation: AnyOperation, catalog: Catalog, terms: PaymentTerms) {
  const { minimumChargeUsd: min, maximumChargeUsd: max } = boundsOf(operation, catalog)
  return {
    price:
      min === max ? { mode: 'fixed', currency: 'USD', amount: max } : { mode: 'dynamic', currency: 'USD', min, max },
    protocols: [{ x402: { version: 2, scheme: 'upto', network: terms.network, asset: terms.asset } }],
  }
}
