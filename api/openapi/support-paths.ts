import { signedReceiptSchema } from '#shared/payment/receipt.ts'
import { jsonSchemaOf } from '../schemas/json-schema.ts'
import { quoteSchema } from '../schemas/quotes.ts'
import { type FailureStatus, failureReferences, headerReferences } from './components.ts'
import type { DocumentPart } from './paid-paths.ts'

const anyObject = { type: 'object' }
const json = (schema: object) => ({ 'application/json': { schema } })
const plainText = (type: string) => ({ [type]: { schema: { type: 'string' } } })

interface SupportOperation {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly parameters?: readonly object[]
  readonly requestBody?: object
  readonly content: Record<string, unknown>
  readonly failures?: readonly FailureStatus[]
}

function support({ content, failures = [], ...operation }: SupportOperation) {
  return {
    ...operation,
    tags: ['support'],
    security: [],
    responses: {
      '200': { description: 'The response as described.', headers: headerReferences('X-Request-ID'), content },
      ...failureReferences(...failures),
    },
  }
}

function pathParameter(name: string, schema: object) {
  return { name, in: 'path', required: true, schema }
}

const quotes = support({
  operationId: 'createQuote',
  summary: 'Price a request without binding a key',
  description: 'Takes the operation’s name and the JSON body of its endpoint; returns the maximum price and the terms.',
  requestBody: {
    required: true,
    content: json({
      type: 'object',
      properties: {
        operation: { type: 'string', description: 'The operationId of a paid endpoint.' },
        request: { type: 'object', description: 'The endpoint’s JSON body.' },
      },
      required: ['operation', 'request'],
      additionalProperties: false,
    }),
  },
  content: json({ $ref: '#/components/schemas/Quote' }),
  failures: [400, 408, 413, 415, 429, 503],
})

const receipts = support({
  operationId: 'getReceipt',
  summary: 'Read the receipt of a paid call',
  description:
    'A signed record of usage, unit prices, calculation and transaction, from which the charge can be recomputed and the transfer found on chain.',
  parameters: [
    pathParameter('id', { type: 'string', format: 'uuid' }),
    {
      name: 'Authorization',
      in: 'header',
      required: true,
      description: '"Bearer " followed by the X-Receipt-Token of the paid response.',
      schema: { type: 'string' },
    },
  ],
  content: json({ $ref: '#/components/schemas/Receipt' }),
  failures: [401, 404, 503],
})

const mediaContent = {
  'image/png': { schema: { type: 'string', format: 'binary' } },
  'audio/mpeg': { schema: { type: 'string', format: 'binary' } },
}

const media = support({
  operationId: 'getMedia',
  summary: 'Fetch a generated image or audio file until it expires',
  description: 'The URL is a capability: keep it out of logs and public messages.',
  parameters: [pathParameter('token', { type: 'string' })],
  content: mediaContent,
  failures: [404, 416, 429, 503],
})

const partOfMedia = {
  description: 'The bytes that the Range header asks for.',
  headers: headerReferences('X-Request-ID', 'Content-Range'),
  content: mediaContent,
}

const readiness = support({
  operationId: 'getReadiness',
  summary: 'Check which dependencies respond; `degraded` while only some requests can be served',
  content: json(anyObject),
})

const reference = support({ operationId: 'getReference', summary: 'The API reference for people', content: {} })

function page(operationId: string, summary: string, content: Record<string, unknown>) {
  return { get: support({ operationId, summary, content }) }
}

/** Describes the routes that support the paid and free endpoints, under a separate tag. */
export function supportPaths(): DocumentPart {
  return {
    paths: {
      '/v1/quotes': { post: quotes },
      '/v1/receipts/{id}': { get: receipts },
      '/media/{token}': { get: { ...media, responses: { ...media.responses, '206': partOfMedia } } },
      '/.well-known/x402': page('getX402Resources', 'List the paid resources of this origin', json(anyObject)),
      '/.well-known/did.json': page(
        'getDidDocument',
        'Read the keys that sign offers and receipts, as a did:web document',
        json(anyObject),
      ),
      '/.well-known/jwks.json': page(
        'getSigningKeys',
        'Read the keys that sign offers and receipts, as a JWKS',
        json(anyObject),
      ),
      '/openapi.json': page('getInterfaceDescription', 'Read this document', json(anyObject)),
      '/llms.txt': page('getGuidance', 'Read the guidance for agents', plainText('text/plain')),
      '/docs': { get: { ...reference, responses: { '301': { description: 'The page is at /docs/.' } } } },
      '/healthz': page('getHealth', 'Check that the process responds', json(anyObject)),
      '/readyz': {
        get: {
          ...readiness,
          responses: {
            ...readiness.responses,
            '503': {
              description: 'This process cannot serve; names the dependencies that are down.',
              content: json(anyObject),
            },
          },
        },
      },
    },
    schemas: { Quote: jsonSchemaOf(quoteSchema, 'output'), Receipt: jsonSchemaOf(signedReceiptSchema, 'output') },
  }
}
