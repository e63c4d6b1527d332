import type { z } from 'zod'
import { signedReceiptSchema } from '#shared/payment/receipt.ts'
import {
  accountDebtsSchema,
  accountOpenSchema,
  accountReceiptsSchema,
  accountSpendSchema,
  DEFAULT_PAGE,
  DEFAULT_SPEND_DAYS,
  MAXIMUM_PAGE,
  MAXIMUM_SPEND_DAYS,
} from '../schemas/account.ts'
import { hoistDefinitions, type JsonSchema, jsonSchemaOf } from '../schemas/json-schema.ts'
import { failureReferences, headerReferences, jsonOf } from './components.ts'
import type { DocumentPart } from './paid-paths.ts'

/** How a wallet proves itself. The extension key lets listing services tell wallets from API keys. */
export const accountSecuritySchemes = {
  siwx: {
    type: 'apiKey',
    in: 'header',
    name: 'SIGN-IN-WITH-X',
    description:
      'The challenge of the 402 (extension sign-in-with-x of PAYMENT-REQUIRED), signed by the wallet (EIP-191), as Base64-encoded JSON. Each challenge works once, for its route, within five minutes.',
    'x-agentcash-auth-kind': 'siwx',
  },
  accountSession: {
    type: 'http',
    scheme: 'bearer',
    description: 'The X-Account-Session of an answer to SIGN-IN-WITH-X, for ten minutes and all account routes.',
  },
}

function query(name: string, description: string, schema: object) {
  return { name, in: 'query', required: false, description, schema }
}

const day = { type: 'string', format: 'date' }
const page = [
  query('limit', 'Entries of a page.', {
    type: 'integer',
    minimum: 1,
    maximum: MAXIMUM_PAGE,
    default: DEFAULT_PAGE,
  }),
  query('cursor', 'The next_cursor of the page before.', { type: 'string' }),
]

const reads = [
  {
    path: '/v1/account/receipts',
    operationId: 'listAccountReceipts',
    summary: 'List your receipts with their tokens, newest first',
    description:
      'For a wallet that lost its receipt tokens. Earlier tokens stay valid. Receipts that are issued while you page neither shift nor repeat an entry.',
    schemaName: 'AccountReceipts',
    schema: accountReceiptsSchema,
    parameters: [
      ...page,
      query('from', 'The first UTC day of completion.', day),
      query('to', 'The last UTC day of completion.', day),
    ],
  },
  {
    path: '/v1/account/spend',
    operationId: 'getAccountSpend',
    summary: 'Add up your charges by day, model and operation',
    description: 'As JSON, or as CSV with `format=csv` or an Accept header that prefers text/csv.',
    schemaName: 'AccountSpend',
    schema: accountSpendSchema,
    parameters: [
      query('from', `The first UTC day; by default ${DEFAULT_SPEND_DAYS} days until \`to\`.`, day),
      query('to', `The last UTC day; today by default. At most ${MAXIMUM_SPEND_DAYS} days in total.`, day),
      query('format', 'Takes precedence over Accept.', { type: 'string', enum: ['json', 'csv'] }),
    ],
  },
  {
    path: '/v1/account/debts',
    operationId: 'listAccountDebts',
    summary: 'List your completed calls that are not paid for, oldest first',
    description:
      'Their results are withheld, and further calls are refused. Repeat a call with its idempotency key and a fresh payment to pay for it.',
    schemaName: 'AccountDebts',
    schema: accountDebtsSchema,
    parameters: page,
  },
  {
    path: '/v1/account/open',
    operationId: 'listAccountOpenCalls',
    summary: 'List your calls in progress, oldest first',
    description: 'With the most that each may still charge. A call under review waits for the operator.',
    schemaName: 'AccountOpenCalls',
    schema: accountOpenSchema,
    parameters: page,
  },
] as const satisfies readonly { schema: z.ZodType; [key: string]: unknown }[]

function refusal(description: string, headers: object = headerReferences('X-Request-ID')) {
  return { description, headers, content: jsonOf('Error') }
}

function readOperation({ path, operationId, summary, description, schemaName, parameters }: (typeof reads)[number]) {
  const csv = path === '/v1/account/spend' ? { 'text/csv': { schema: { type: 'string' } } } : {}
  return {
    operationId,
    summary,
    description: `${description} Free; the wallet signs in with SIGN-IN-WITH-X.`,
    tags: ['support'],
    security: [{ siwx: [] }, { accountSession: [] }],
    parameters,
    responses: {
      '200': {
        description: 'What this wallet’s own calls came to.',
        headers: headerReferences('X-Request-ID', 'X-Account-Session'),
        content: { ...jsonOf(schemaName), ...csv },
      },
      '401': refusal('The sign-in was refused, has expired or was used before.'),
      '402': refusal(
        'Sign in: PAYMENT-REQUIRED has a sign-in-with-x challenge. It accepts no payment, because none is asked for.',
        headerReferences('X-Request-ID', 'PAYMENT-REQUIRED'),
      ),
      ...failureReferences(400, 429, 503),
    },
  }
}

/** Refers to the schema of a receipt instead of repeating it. */
function schemaWithReceipt(schema: z.ZodType): JsonSchema {
  const receipt = JSON.stringify(jsonSchemaOf(signedReceiptSchema, 'output'))
  const text = JSON.stringify(jsonSchemaOf(schema, 'output'))
  return JSON.parse(text.replace(receipt, '{"$ref":"#/components/schemas/Receipt"}')) as JsonSchema
}

/** Describes the routes by which a wallet reads its own calls. */
export function accountPaths(): DocumentPart {
  return {
    paths: Object.fromEntries(reads.map((read) => [read.path, { get: readOperation(read) }])),
    schemas: Object.assign(
      {},
      ...reads.map(({ schemaName, schema }) => hoistDefinitions(schemaName, schemaWithReceipt(schema))),
    ),
  }
}
