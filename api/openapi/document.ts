import type { Catalog } from '#shared/catalog/catalog.ts'
import { categories } from '#shared/catalog/categories.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { headers, parameters, responses, sharedSchemas } from './components.ts'
import { freePaths } from './free-paths.ts'
import { DATA_HANDLING, firstCall, GUIDANCE } from './guidance.ts'
import { paidPaths } from './paid-paths.ts'
import { supportPaths } from './support-paths.ts'

/** The version of the interface description (test/contract/specification.ts, V1). */
export const INTERFACE_VERSION = '0.5.0'

const INTRODUCTION =
  'Text, image, speech and transcription models, each call paid in USDC through x402 version 2, scheme upto. No account and no API key. A model or endpoint described here is available only while GET /v1/models lists it.'

export interface OpenApiInput {
  /** The complete published catalog: the description does not change with availability. */
  readonly publishedCatalog: Catalog
  readonly operations: readonly AnyOperation[]
  readonly terms: PaymentTerms
  readonly publicBaseUrl: string
  /** The operator's address; listing services verify ownership with it. */
  readonly contactEmail: string
}

/** Builds the OpenAPI 3.1 document. Deterministic: the same input yields the same text. */
export function buildOpenApiDocument({
  publishedCatalog,
  operations,
  terms,
  publicBaseUrl,
  contactEmail,
}: OpenApiInput): Record<string, unknown> {
  const parts = [paidPaths(operations, publishedCatalog, terms), freePaths(), supportPaths()]
  return {
    openapi: '3.1.0',
    info: {
      title: 'farebox',
      version: INTERFACE_VERSION,
      summary: 'Pay-per-request AI model router',
      description: [
        INTRODUCTION,
        firstCall(publishedCatalog, publicBaseUrl, terms.network),
        `## Data\n\n${DATA_HANDLING}`,
      ].join('\n\n'),
      contact: { name: 'farebox operator', email: contactEmail, url: new URL('/docs/', publicBaseUrl).href },
      license: { name: 'MIT', identifier: 'MIT' },
      'x-guidance': GUIDANCE,
    },
    'x-agentcash-guidance': { llmsTxtUrl: new URL('/llms.txt', publicBaseUrl).href },
    servers: [{ url: new URL(publicBaseUrl).origin }],
    security: [],
    tags: [
      ...categories.map(({ id, description }) => ({ name: id, description })),
      { name: 'discovery', description: 'Free: models, prices, voices and wallet balances.' },
      {
        name: 'support',
        description: 'Free: quotes, receipts, media, health checks and descriptions of the service.',
      },
    ],
    paths: Object.assign({}, ...parts.map(({ paths }) => paths)),
    components: {
      schemas: Object.assign({ ...sharedSchemas }, ...parts.map(({ schemas }) => schemas)),
      parameters,
      headers,
      responses,
    },
  }
}
