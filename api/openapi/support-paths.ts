import { signedReceiptSchema } from '#shared/payment/receipt.ts'
import { allowanceRequestSchema, allowanceSchema, allowanceStatusSchema } from '../schemas/allowances.ts'
import { modelSchema } from '../schemas/catalogs.ts'
import { jsonSchemaOf } from '../schemas/json-schema.ts'
import { quoteSchema } from '../schemas/quotes.ts'
import { type FailureStatus, failureReferences, headerReferences, jsonOf, NOT_MODIFIED } from './components.ts'
import type { DocumentPart } from './paid-paths.ts'
import { quoteParameters, quoteRequestBody } from './quote-request-body.ts'

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

/** Describes a page that callers keep with its `ETag`. */
function cached(operation: SupportOperation) {
  const described = support(operation)
  const ok = { ...described.responses['200'], headers: headerReferences('X-Request-ID', 'ETag') }
  return { ...described, responses: { ...described.responses, '200': ok, ...NOT_MODIFIED } }
}

function pathParameter(name: string, schema: object) {
  return { name, in: 'path', required: true, schema }
}

const quotes = support({
  operationId: 'createQuote',
  summary: 'Price a request without sending its recording, and without binding a key',
  description:
    'Takes the operation’s name and the JSON body of its endpoint; returns the maximum price and the terms. A transcription may describe its recording by SHA-256, size and duration, so that the signed request is the first to bring it. With challenge true the answer is the 402 that the endpoint itself would send, to be signed and sent there. A recording that is not the one described gets a new 402 with its own price; nothing is charged.',
  parameters: quoteParameters,
  requestBody: quoteRequestBody,
  content: jsonOf('Quote'),
  failures: [400, 402, 408, 409, 413, 415, 429, 503],
})

const jsonRpcMessage = {
  type: 'object',
  properties: {
    jsonrpc: { const: '2.0' },
    id: { type: ['string', 'integer', 'null'] },
    method: { type: 'string' },
    params: { type: 'object' },
    result: { type: 'object' },
    error: { type: 'object' },
  },
  required: ['jsonrpc'],
}

const mcp = support({
  operationId: 'callTool',
  summary: 'Call the same operations as tools of an MCP server',
  description:
    'The Model Context Protocol over streamable HTTP, without sessions: one JSON-RPC message in each request, of the revisions of 2025 or 2026-07-28. A call of a paid tool is the request to its endpoint, with x402 in _meta: x402/payment and farebox/idempotency-key of the call, x402/payment-response and farebox/receipt of its result. What the endpoint refuses, payment included, is a result with isError.',
  requestBody: { required: true, content: json(jsonRpcMessage) },
  content: json(jsonRpcMessage),
  failures: [408, 413, 415, 429, 503],
})

/** What the protocol itself answers. */
const protocolAnswers = {
  '202': { description: 'A notification, which is not answered.' },
  '400': {
    description: 'A body that is no message of a served revision of the protocol, as a JSON-RPC error.',
    content: json(jsonRpcMessage),
  },
  '406': {
    description: 'The Accept header lacks application/json or text/event-stream.',
    content: json(jsonRpcMessage),
  },
}

const allowanceStatus = support({
  operationId: 'getAllowance',
  summary: 'Read what a wallet may pay without a permit, and what to sign for a lasting allowance',
  description:
    'What Permit2 may take of the owner’s USDC, the permit that waits for the owner’s next charge, whether the service would store one now, and the EIP-712 message of that permit, ready to sign.',
  parameters: [
    {
      name: 'owner',
      in: 'query',
      required: true,
      description: 'The wallet, as 0x and 40 hexadecimal digits.',
      schema: { type: 'string', pattern: '^0x[0-9a-fA-F]{40}$' },
    },
  ],
  content: jsonOf('AllowanceStatus'),
  failures: [400, 429, 503],
})

const allowances = support({
  operationId: 'createAllowance',
  summary: 'Approve Permit2 once, without gas, so that calls can be paid in parallel',
  description:
    'Stores the owner’s EIP-2612 permit of USDC for Permit2 until the owner’s next charge brings it to the chain. From now on payments need no permit, and the ones that they bring are ignored; a newer permit takes the place of an earlier one. Nothing is stored where the allowance already suffices. A permit moves no funds: each payment still needs its own signature.',
  requestBody: { required: true, content: jsonOf('AllowanceRequest') },
  content: jsonOf('Allowance'),
  failures: [400, 408, 409, 413, 415, 429, 503],
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
  content: jsonOf('Receipt'),
  failures: [401, 404, 429, 503],
})

const mediaContent = Object.fromEntries(
  ['image/png', 'image/jpeg', 'image/webp', 'audio/mpeg'].map((type) => [
    type,
    { schema: { type: 'string', format: 'binary' } },
  ]),
)

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

const health = support({
  operationId: 'getHealth',
  summary: 'Check that the process responds',
  content: json(anyObject),
})

const readiness = support({
  operationId: 'getReadiness',
  summary: 'Check which dependencies respond; `degraded` while only some requests can be served',
  content: json(anyObject),
})

const reference = support({ operationId: 'getReference', summary: 'The API reference for people', content: {} })

const model = cached({
  operationId: 'getModel',
  summary: 'Read one available model',
  description: 'As GET /v1/models lists it. A slash in the id may be encoded or not.',
  parameters: [pathParameter('id', { type: 'string' })],
  content: jsonOf('Model'),
  failures: [404],
})

const securityContact = cached({
  operationId: 'getSecurityContact',
  summary: 'Read where to report a vulnerability (RFC 9116), if the operator publishes it',
  content: plainText('text/plain'),
  failures: [404],
})

function page(operationId: string, summary: string, content: Record<string, unknown>) {
  return { get: cached({ operationId, summary, content }) }
}

/** Describes the routes that support the paid and free endpoints, under a separate tag. */
export function supportPaths(): DocumentPart {
  return {
    paths: {
      '/v1/models/{id}': { get: model },
      '/v1/quotes': { post: quotes },
      '/mcp': { post: { ...mcp, responses: { ...mcp.responses, ...protocolAnswers } } },
      '/v1/allowances': { get: allowanceStatus, post: allowances },
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
      '/': page(
        'getHomePage',
        'The front page for people, and the guidance for clients that prefer Markdown or plain text',
        {
          ...plainText('text/html'),
          ...plainText('text/markdown'),
          ...plainText('text/plain'),
        },
      ),
      '/llms.txt': page('getGuidance', 'Read the guidance for agents', plainText('text/plain')),
      '/SKILL.md': page('getSkill', 'Read the guidance as a skill that agents can keep', plainText('text/markdown')),
      '/robots.txt': page('getCrawlerRules', 'Read what crawlers should not visit', plainText('text/plain')),
      '/.well-known/security.txt': { get: securityContact },
      '/docs': { get: { ...reference, responses: { '301': { description: 'The page is at /docs/.' } } } },
      '/healthz': { get: health },
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
    schemas: {
      Allowance: jsonSchemaOf(allowanceSchema, 'output'),
      AllowanceRequest: jsonSchemaOf(allowanceRequestSchema, 'input'),
      AllowanceStatus: jsonSchemaOf(allowanceStatusSchema, 'output'),
      Model: jsonSchemaOf(modelSchema, 'output'),
      Quote: jsonSchemaOf(quoteSchema, 'output'),
      Receipt: jsonSchemaOf(signedReceiptSchema, 'output'),
    },
  }
}
