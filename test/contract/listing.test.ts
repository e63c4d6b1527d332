import { randomUUID } from 'node:crypto'
import { validatePaymentRequiredDetailed } from '@agentcash/discovery'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { PaymentRequiredV2Schema } from '@x402/core/schemas'
import type { PaymentPayload, PaymentRequired } from '@x402/core/types'
import {
  type DiscoveryExtension,
  extractDiscoveryInfo,
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
} from '@x402/extensions'
import { describe, expect, it } from 'vitest'
import { type Catalog, createCatalog } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { ERROR_CODES, type ErrorCode } from '#shared/errors/error-codes.ts'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { type AnyOperation, operations } from '#shared/operations/registry.ts'
import { createStatementSigner } from '#shared/payment/statement-signer.ts'
import { renderChallenge } from '../../api/paid-request/challenge/challenge.ts'
import { createListings } from '../../api/paid-request/challenge/listing.ts'
import { renderProbeChallenge } from '../../api/paid-request/challenge/probe-challenge.ts'
import { readIdempotencyKey } from '../../api/request/headers.ts'
import { terms } from '../integration/routes/compose-app.ts'
import { fixedCatalogs } from '../support/http/fixed-catalogs.ts'

/** Half of the 16 KB of headers at which Node's fetch rejects an answer. */
const LONGEST_HEADER = 8192

/** 253 characters, the longest host name (RFC 1035, section 2.3.4). */
const LONGEST_HOST = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(53)}.example`

const LONGEST_CODE = Object.keys(ERROR_CODES).reduce((a, b) => (b.length > a.length ? b : a)) as ErrorCode

interface Rendered {
  readonly header: string
  readonly body: Record<string, unknown>
  readonly required: PaymentRequired
  readonly input: { method: string; headers: Record<string, string>; body: Record<string, unknown> }
}

interface Origin {
  readonly url?: string
  readonly catalog?: Catalog
  readonly refusal?: AppError
}

/** Renders a 402 of `operation` as its endpoint does, with the longest values that occur in one. */
function render(
  kind: string,
  operation: AnyOperation,
  { url = 'https://farebox.example', catalog = publishedCatalog, refusal }: Origin = {},
): Rendered {
  const dependencies = {
    catalogs: fixedCatalogs(catalog),
    terms,
    challengeSecrets: ['s'.repeat(32)] as const,
    listings: createListings({ catalog: () => catalog, publicBaseUrl: url, newKey: randomUUID }),
    signer: createStatementSigner(url, [{ id: '2026winter', seed: '11'.repeat(32) }]),
    now: () => new Date(),
  }
  const challenge = {
    operation,
    idempotencyKey: 'k'.repeat(255),
    requestDigest: 'd'.repeat(64),
    quote: { quotedMaximum: atomicFromDollars('0.766952'), catalogVersion: catalog.version, terms: {} },
    expiresAt: new Date('9999-12-31T23:59:59Z'),
  }
  const { headers, body } =
    kind === 'probe'
      ? renderProbeChallenge(dependencies, operation, randomUUID())
      : renderChallenge(dependencies, challenge, randomUUID(), refusal)
  const header = headers['payment-required']
  const required = decodePaymentRequiredHeader(header)
  const input = bazaarOf(required).info.input as unknown as Rendered['input']
  return { header, body: JSON.parse(body) as Record<string, unknown>, required, input }
}

function bazaarOf({ extensions = {} }: PaymentRequired): DiscoveryExtension {
  return extensions['bazaar'] as DiscoveryExtension
}

const both = operations.flatMap((operation) =>
  ['probe', 'priced'].map((kind) => ({ kind, operation, id: operation.id })),
)

describe.each(both)('the 402 of a $kind request of $id', ({ kind, operation }) => {
  const { header, body, required, input } = render(kind, operation)
  const bazaar = bazaarOf(required)

  it('every 402 is valid for the protocol’s own schema and its discovery extension', () => {
    expect(PaymentRequiredV2Schema.safeParse(required).error).toBeUndefined()
    expect(validateDiscoveryExtension(bazaar)).toEqual({ valid: true })
    expect(validateDiscoveryExtensionSpec({ ...bazaar })).toEqual({ valid: true })
  })

  it('every 402 has name, tags and icon of the service where a facilitator reads them', () => {
    const [accepted] = required.accepts
    if (!accepted) throw new Error('The 402 offers nothing.')
    const payment = {
      x402Version: 2,
      accepted,
      payload: {},
      resource: required.resource,
      extensions: required.extensions,
    }
    const found = extractDiscoveryInfo(payment as PaymentPayload, accepted)
    expect(found).toMatchObject({
      resourceUrl: `https://farebox.example${operation.path}`,
      method: 'POST',
      description: operation.summary,
      serviceName: 'farebox',
      iconUrl: 'https://farebox.example/favicon.svg',
    })
    // Facilitators drop tags that break their rules.
    expect(found?.tags).toEqual((required.resource as { tags?: string[] }).tags)
  })

  it('every 402 is read by the listing services’ parser without an issue, from header and body', () => {
    for (const payload of [required, { ...body, error: undefined }])
      expect(validatePaymentRequiredDetailed(payload)).toMatchObject({ valid: true, issues: [] })
  })

  it('every 402 has an example with a key and a body that the endpoint accepts', () => {
    const { [operation.upload?.jsonField ?? '']: _upload, ...fields } = input.body
    expect(readIdempotencyKey(input.headers)).toMatch(/^[0-9a-f-]{36}$/)
    expect(operation.bodySchema.safeParse(fields).error).toBeUndefined()
    expect(input.method).toBe('POST')
  })

  it('every 402 proposes another key, so that callers who copy the example do not share one', () => {
    const again = render(kind, operation)
    expect(again.input.headers).not.toEqual(input.headers)
    expect(again.input.body).toEqual(input.body)
  })

  it('every 402 fits into a header of 8 KB, even with the longest host name and error code [spec F3]', () => {
    expect(header.length).toBeLessThanOrEqual(6144)
    const longest = render(kind, operation, { url: `https://${LONGEST_HOST}`, refusal: new AppError(LONGEST_CODE) })
    expect(longest.header.length).toBeLessThanOrEqual(LONGEST_HEADER)
  })
})

it('a probe’s 402 shows the fields of a request with their types and limits, and an example of the result', () => {
  for (const operation of operations) {
    const { schema, info } = bazaarOf(render('probe', operation).required)
    expect(schema).toHaveProperty(['properties', 'input', 'properties', 'body', 'properties', 'model'])
    expect(schema).toHaveProperty(['properties', 'input', 'properties', 'headers', 'required'], ['x-idempotency-key'])
    expect(operation.resultSchema.safeParse(info.output?.example).error).toBeUndefined()
  }
})

it('the example names a model that the operator serves', () => {
  const models = publishedCatalog.models.filter(({ id }) => id === 'textmodel-2.5-pro')
  const catalog = createCatalog({ ...publishedCatalog, models })
  const [chat] = operations
  if (!chat) throw new Error('There are no operations.')
  expect(render('probe', chat).input.body['model']).not.toBe('textmodel-2.5-pro')
  for (const kind of ['probe', 'priced'])
    expect(render(kind, chat, { catalog }).input.body).toMatchObject({ model: 'textmodel-2.5-pro' })
})

it('a 402 of an origin that listing services cannot reach has no icon', () => {
  const [chat] = operations
  if (!chat) throw new Error('There are no operations.')
  for (const url of ['http://127.0.0.1:8402', 'http://localhost:8402'])
    expect(render('probe', chat, { url }).required.resource).not.toHaveProperty('iconUrl')
})
