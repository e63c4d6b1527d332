import fastify, { type FastifyInstance } from 'fastify'
import type { Catalog } from '#shared/catalog/catalog.ts'
import { priceBounds } from '#shared/catalog/price-bounds.ts'
import type { StatementSigner } from '#shared/payment/statement-signer.ts'
import { buildOpenApiDocument, type OpenApiInput } from '../openapi/document.ts'
import { GUIDANCE } from '../openapi/guidance.ts'
import { type CurrentCatalog, derived } from '../request/live-catalog.ts'
import {
  addCachedResponse,
  addStaticJson,
  addStaticResponse,
  jsonRepresentation,
  type Representation,
  representationOf,
  sendRepresentation,
} from './static-response.ts'

interface DiscoveryInput extends Omit<OpenApiInput, 'publishedCatalog'> {
  /** The models available now; `publishedCatalog` has all of them. */
  readonly catalog: CurrentCatalog
  readonly publishedCatalog: CurrentCatalog
  readonly signer: StatementSigner
}

/** A fare box, for listing services and browser tabs. */
const FAVICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#0a5" d="M2 3h12v11H2z"/><path fill="#fff" d="M5 5h6v1.5H5zM5 9h6v3H5z"/></svg>'

/** The bundle is several megabytes and changes only with a release. */
const REFERENCE_CACHE = 'public, max-age=3600'

/** Adds the descriptions of the service: `/openapi.json`, `/docs` and `/.well-known`. */
export function addDiscoveryRoutes(app: FastifyInstance, input: DiscoveryInput): void {
  const description = derived(input.publishedCatalog, (publishedCatalog) =>
    jsonRepresentation(buildOpenApiDocument({ ...input, publishedCatalog })),
  )
  addCachedResponse(app, '/openapi.json', description)
  const resources = derived(input.catalog, (catalog) => jsonRepresentation(x402Resources(catalog, input)))
  addCachedResponse(app, '/.well-known/x402', resources)
  addStaticJson(app, '/.well-known/did.json', didDocument(input.signer))
  addStaticJson(app, '/.well-known/jwks.json', keySet(input.signer))
  addStaticResponse(app, '/favicon.svg', { contentType: 'image/svg+xml', body: FAVICON })
  addReference(app, input.publicBaseUrl)
}

/** Lists the available paid resources for listing services: URLs in `resources`, details in `endpoints`. */
function x402Resources(catalog: Catalog, { operations, terms, publicBaseUrl, signer }: DiscoveryInput) {
  const endpoints = operations.flatMap(({ id, path, category, summary }) => {
    const bounds = priceBounds(catalog, category)
    if (!bounds) return []
    return [
      {
        url: new URL(path, publicBaseUrl).href,
        method: 'POST',
        operation: id,
        description: summary,
        price: { currency: 'USD', minimum: bounds.minimumChargeUsd, maximum: bounds.maximumChargeUsd },
      },
    ]
  })
  return {
    version: 1,
    x402Version: 2,
    resources: endpoints.map(({ url }) => url),
    endpoints,
    payment: { scheme: 'upto', network: terms.network, asset: terms.asset, payTo: terms.payTo },
    signing: {
      extension: 'offer-receipt',
      did: signer.did,
      did_document: new URL('/.well-known/did.json', publicBaseUrl).href,
      jwks_uri: new URL('/.well-known/jwks.json', publicBaseUrl).href,
    },
    openapi: new URL('/openapi.json', publicBaseUrl).href,
    instructions: GUIDANCE,
  }
}

/** Returns the document that `did:web` resolves to: the keys that sign for this origin (DID Core 1.0, section 5). */
function didDocument({ did, publicKeys }: StatementSigner) {
  return {
    '@context': ['https://www.w3.org/ns/did/v1', 'https://w3id.org/security/suites/jws-2020/v1'],
    id: did,
    verificationMethod: publicKeys.map(({ kid, jwk }) => ({
      id: kid,
      type: 'JsonWebKey2020',
      controller: did,
      publicKeyJwk: jwk,
    })),
    assertionMethod: publicKeys.map(({ kid }) => kid),
  }
}

/** Returns the same keys for JOSE libraries (RFC 7517, section 5). */
function keySet({ publicKeys }: StatementSigner) {
  return { keys: publicKeys.map(({ kid, jwk }) => ({ ...jwk, kid, use: 'sig', alg: 'EdDSA' })) }
}

const REFERENCE_PATH = '/docs'
const REFERENCE_PAGES = ['', '/', '/js/scalar.js'].map((path) => `${REFERENCE_PATH}${path}`)

/**
 * Adds Scalar's API reference from its package. Everything that would call another host is switched off, and the
 * content security policy blocks whatever a later release may add. The bundle creates its styles and parts of its code
 * at run time, hence `unsafe-*`.
 */
function addReference(app: FastifyInstance, publicBaseUrl: string): void {
  const policy = [
    "default-src 'none'",
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "worker-src 'self' blob:",
    `connect-src 'self' ${new URL(publicBaseUrl).origin}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; ')
  let loading: Promise<ReadonlyMap<string, ReferencePage>> | null = null
  for (const path of REFERENCE_PAGES)
    app.get(path, async (request, reply) => {
      loading ??= loadReference()
      // What failed once is tried again.
      loading.catch(() => (loading = null))
      const page = (await loading).get(path)
      if (!page) throw new Error(`the reference has no page ${path}`)
      reply.header('content-security-policy', policy)
      if (page.location === undefined) return sendRepresentation(request, reply, page, REFERENCE_CACHE)
      const headers = { location: page.location, 'cache-control': REFERENCE_CACHE }
      return await reply.status(page.status).headers(headers).send()
    })
}

/** A part of the reference, which all answers share: a client that does not read must not hold a copy of megabytes. */
interface ReferencePage extends Representation {
  readonly status: number
  /** Where the page is instead. */
  readonly location: string | undefined
}

/** Loads the package when the reference is first asked for: it takes 30 MB of memory, and few processes are asked. */
async function loadReference(): Promise<ReadonlyMap<string, ReferencePage>> {
  const { default: reference } = await import('@scalar/fastify-api-reference')
  const server = fastify()
  await server.register(reference, {
    routePrefix: REFERENCE_PATH,
    configuration: {
      url: '/openapi.json',
      pageTitle: 'farebox reference',
      favicon: '/favicon.svg',
      withDefaultFonts: false,
      telemetry: false,
      showDeveloperTools: 'never',
      agent: { disabled: true },
      mcp: { disabled: true },
    },
  })
  const pages = new Map<string, ReferencePage>()
  for (const path of REFERENCE_PAGES) {
    const { statusCode: status, headers, rawPayload } = await server.inject({ url: path })
    const { location } = headers
    if (status >= 400) throw new Error(`the reference answers ${path} with ${status}`)
    pages.set(path, { ...representationOf(String(headers['content-type']), rawPayload), status, location })
  }
  return pages
}
