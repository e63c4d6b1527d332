import type { z } from 'zod'
import { walletAddressSchema, walletBalanceSchema } from '../schemas/allowances.ts'
import { catalogSchema, modelListSchema, pricingCatalogSchema, voiceListSchema } from '../schemas/catalogs.ts'
import { hoistDefinitions, jsonSchemaOf } from '../schemas/json-schema.ts'
import { failureReferences, headerReferences, jsonOf, NOT_MODIFIED } from './components.ts'
import type { DocumentPart } from './paid-paths.ts'

const lists = [
  {
    path: '/v1/models',
    operationId: 'listModels',
    schemaName: 'ModelList',
    schema: modelListSchema,
    summary: 'List the available models',
    description: 'The only source of truth for availability: models that are not listed cannot be called.',
  },
  {
    path: '/v1/pricing',
    operationId: 'listPricing',
    schemaName: 'PricingCatalog',
    schema: pricingCatalogSchema,
    summary: 'List the prices',
    description: 'Unit prices, price bounds of one call, and limits of every available model.',
  },
  {
    path: '/v1/audio/voices',
    operationId: 'listAudioVoices',
    schemaName: 'VoiceList',
    schema: voiceListSchema,
    summary: 'List the voices',
    description: 'The voice aliases for text to speech, and the default voice of each model.',
  },
] as const satisfies readonly { schema: z.ZodType; [key: string]: unknown }[]

/** Describes the free endpoints, and the catalog behind their lists. */
export function freePaths(): DocumentPart {
  return {
    paths: {
      ...Object.fromEntries(lists.map((list) => [list.path, { get: listOperation(list) }])),
      '/v1/catalogs/{version}': { get: catalogOperation },
      '/v1/balance': { get: balanceOperation },
    },
    schemas: {
      ...Object.assign({}, ...lists.map(({ schemaName, schema }) => hoisted(schemaName, schema))),
      ...hoisted('Catalog', catalogSchema),
      ...hoisted('WalletBalance', walletBalanceSchema),
    },
  }
}

function hoisted(name: string, schema: z.ZodType) {
  return hoistDefinitions(name, jsonSchemaOf(schema, 'output'))
}

function listOperation({ operationId, schemaName, summary, description }: (typeof lists)[number]) {
  return {
    operationId,
    summary,
    description,
    tags: ['discovery'],
    security: [],
    responses: {
      '200': {
        description: 'The list.',
        headers: headerReferences('X-Request-ID', 'ETag'),
        content: jsonOf(schemaName),
      },
      ...NOT_MODIFIED,
    },
  }
}

const catalogOperation = {
  operationId: 'getCatalog',
  summary: 'Read one version of the catalog',
  description:
    'What was offered, at which prices, when a quote was made: the version is catalog_version of a quote or receipt. Never changes, and stays readable after later versions.',
  tags: ['support'],
  security: [],
  parameters: [
    {
      name: 'version',
      in: 'path',
      required: true,
      description: 'The version, as X-Catalog-Version, receipts, quotes and lists name it.',
      schema: { type: 'string', pattern: '^catalog-[0-9a-f]{16}$' },
    },
  ],
  responses: {
    '200': {
      description: 'The catalog.',
      headers: headerReferences('X-Request-ID', 'ETag'),
      content: jsonOf('Catalog'),
    },
    ...NOT_MODIFIED,
    ...failureReferences(404, 429, 503),
  },
}

const balanceOperation = {
  operationId: 'getWalletBalance',
  summary: 'Read a wallet’s USDC balance',
  description: 'Reads the balance from the chain. Never connects to a wallet and never asks for a signature.',
  tags: ['discovery'],
  security: [],
  parameters: [
    {
      name: 'address',
      in: 'query',
      required: true,
      description: 'The wallet to look up.',
      schema: jsonSchemaOf(walletAddressSchema, 'input'),
    },
  ],
  responses: {
    '200': {
      description: 'The balance.',
      headers: headerReferences('X-Request-ID'),
      content: jsonOf('WalletBalance'),
    },
    ...failureReferences(400, 429, 503),
  },
}
