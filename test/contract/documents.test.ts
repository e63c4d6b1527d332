import { randomUUID } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { glob, readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { validatePaymentRequiredDetailed } from '@agentcash/discovery'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { PaymentRequiredV2Schema } from '@x402/core/schemas'
import type { PaymentPayload, PaymentRequired } from '@x402/core/types'
import {
  appendPaymentIdentifierToExtensions,
  type DiscoveryExtension,
  extractAndValidatePaymentIdentifier,
  extractDiscoveryInfo,
  validateDiscoveryExtension,
  validateDiscoveryExtensionSpec,
  validatePaymentIdentifier,
} from '@x402/extensions'
import { type Hex, hashDomain, keccak256 } from 'viem'
import { beforeAll, describe, expect, it, test } from 'vitest'
import { type Catalog, createCatalog } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { ERROR_CODES, type ErrorCode } from '#shared/errors/error-codes.ts'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { type AnyOperation, operations } from '#shared/operations/registry.ts'
import { createOfferWriter } from '#shared/payment/offer-receipt.ts'
import { createStatementSigner } from '#shared/payment/statement-signer.ts'
import { renderChallenge } from '../../api/paid-request/quote/challenge.ts'
import { createListings } from '../../api/paid-request/quote/listing.ts'
import { renderProbeChallenge } from '../../api/paid-request/quote/probe-challenge.ts'
import { readIdempotencyKey } from '../../api/request/headers.ts'
import { PUBLISHED_CONTRACTS } from '../../infra/commands/preflight/check-chain.ts'
import { DEVNET_ADDRESSES, startDevnet } from '../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../infra/sandbox/chain/json-rpc.ts'
import { terms } from '../integration/routes/compose-app.ts'
import {
  readAlerts,
  readInfrastructureAlerts,
  readPanels,
  readRunbook,
  readTestedAlerts,
} from '../support/deployment/operator-files.ts'
import { parsePromQl } from '../support/deployment/promql.ts'
import { fixedCatalogs } from '../support/http/fixed-catalogs.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const FOLDERS = ['.', 'client', 'findings', 'infra', 'test']
const SOURCES = '{api,client,infra,operator,packages,shared,test,workers}/**/*.{ts,sol,tf,yml,yaml,eta}'
const isInstalled = (path: string) => path.includes('node_modules')
/** From the repository's folder; imports are not meant, they begin with a dot or `#`. */
const NAMED_FILE =
  /(?<![\w./#-])(?!\S+NNNN)(?:api|client|infra|operator|packages|shared|test|workers)\/[\w./-]+\.(?:md|ts|sol|json|ya?ml|sql|eta)\b/g
interface Link {
  readonly path: string
  readonly anchor: string
}
const readPage = (page: string) => readFileSync(join(ROOT, page), 'utf8').replaceAll(/^```[^]*?^```/gm, '')
/** The links of a Markdown page to files of the repository and to its own headings. */
function relativeLinks(page: string): Link[] {
  const links = [...readPage(page).matchAll(/\]\(([^)#\s]*)(?:#([^)]*))?\)/g)]
  return links.flatMap(([, path = '', anchor = '']) => (path.includes('://') ? [] : [{ path, anchor }]))
}
/** The anchors of a page's headings, as GitHub makes them. */
function anchorsOf(page: string): string[] {
  return [...readPage(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
}
function leadsNowhere(page: string, { path, anchor }: Link): boolean {
  const target = path === '' ? page : join(dirname(page), path)
  if (!existsSync(join(ROOT, target))) return true
  return anchor !== '' && !anchorsOf(target).includes(anchor)
}
async function findPages(): Promise<string[]> {
  const found = await Promise.all(
    FOLDERS.map(async (folder) => {
      const names = await readdir(join(ROOT, folder), { recursive: folder !== '.' })
      return names.filter((name) => name.endsWith('.md') && !isInstalled(name)).map((name) => join(folder, name))
    }),
  )
  return found.flat()
}
/** Half of the 16 KB of headers at which Node's fetch rejects an answer. */
const LONGEST_HEADER = 8192
/**
 * nginx takes 4 KB of an answer's head by default. The rest is for all other headers (heads.test.ts), which are more for a
 * page in a browser: pages pay, and do not probe.
 */
const USUAL_HEADER = { probe: 3900 - 600, priced: 3900 - 1150 }
const LONG_HOST = `${'a'.repeat(32)}.example`
/** 253 characters, the longest host name (RFC 1035, section 2.3.4). */
const LONGEST_HOST = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(53)}.example`
const LONGEST_CODE = Object.keys(ERROR_CODES).reduce((a, b) => (b.length > a.length ? b : a)) as ErrorCode
interface Rendered {
  readonly header: string
  readonly body: Record<string, unknown>
  readonly required: PaymentRequired
}
interface ExampleCall {
  readonly method: string
  readonly headers: Record<string, string>
  readonly body: Record<string, unknown>
}
interface Origin {
  readonly url?: string
  readonly catalog?: Catalog
  readonly refusal?: AppError | undefined
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
    listings: createListings({
      catalog: () => catalog,
      publicBaseUrl: url,
      newKey: randomUUID,
      takesLastingPermits: true,
    }),
    writeOffer: createOfferWriter(createStatementSigner(url, [{ id: '2026winter', seed: '11'.repeat(32) }])),
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
  return { header, body: JSON.parse(body) as Record<string, unknown>, required }
}
function bazaarOf({ extensions = {} }: PaymentRequired): DiscoveryExtension {
  return extensions['bazaar'] as DiscoveryExtension
}
function exampleOf({ required }: Rendered): ExampleCall {
  return bazaarOf(required).info.input as unknown as ExampleCall
}
const both = operations.flatMap((operation) =>
  (['probe', 'priced'] as const).map((kind) => ({ kind, operation, id: operation.id })),
)
/** Where Permit2 compares with the chain id, and returns the domain separator, that its constructor stored. */
const [CHAIN_ID_AT, DOMAIN_AT] = [6945, 6983]
/** As published for Permit2 on Base Sepolia: shows that the places and the computation are right. */
const ON_BASE_SEPOLIA = '0xdcde65555316946c298e4c60c6213eb5c3aeab4354d1f3fac5427236bcbb9ebe'
const published = (name: string) => PUBLISHED_CONTRACTS.find((contract) => contract.name === name)?.codeHash
const alerts = [...(await readAlerts()), ...(await readInfrastructureAlerts())]
/** Fires always. */
const WATCHDOG = 'FareboxWatchdog'
const panels = await readPanels()
const runbook = await readRunbook()

describe('links between the pages', () => {
  test('every relative link of a Markdown page leads to a file of the repository and to a heading of it', async () => {
    const pages = await findPages()
    expect(pages).toEqual(
      expect.arrayContaining(['README.md', 'client/README.md', 'infra/decisions/README.md', 'test/README.md']),
    )
    const broken = pages.flatMap((page) =>
      relativeLinks(page)
        .filter((link) => leadsNowhere(page, link))
        .map(({ path, anchor }) => `${page}: ${path}#${anchor}`),
    )
    expect(broken).toEqual([])
  })

  test('every page and file that a page, a comment or a configuration names is in the repository', async () => {
    const sources = ['Dockerfile', 'docker-compose.yml', '.env.example', ...(await findPages())]
    for await (const file of glob(SOURCES, { cwd: ROOT, exclude: isInstalled })) sources.push(file)
    const missing = sources.flatMap((source) =>
      // This test names files that it makes up.
      source === 'test/contract/lint-rules.test.ts'
        ? []
        : [...readFileSync(join(ROOT, source), 'utf8').matchAll(NAMED_FILE)]
            .filter(([path]) => !existsSync(join(ROOT, path)))
            .map(([path]) => `${source}: ${path}`),
    )
    expect(missing).toEqual([])
  })
})

describe('the decisions', () => {
  const folder = 'infra/decisions'
  const pages = readdirSync(join(ROOT, folder))
    .filter((name) => name !== 'README.md')
    .toSorted()

  test('the index of the decisions lists every page', () => {
    const listed = relativeLinks(`${folder}/README.md`).map(({ path }) => path)
    expect(listed.toSorted()).toEqual(pages)
  })

  test.each(pages)('a decision has at most 60 words: %s', (name) => {
    const [, ...decisions] = readPage(`${folder}/${name}`).split(/^- /m)
    expect(decisions.length).toBeGreaterThan(0)
    const long = decisions.filter((decision) => (decision.split(/\n#/)[0] ?? '').trim().split(/\s+/).length > 60)
    expect(long).toEqual([])
  })
})

describe.each(both)('the 402 of a $kind request of $id', ({ kind, operation }) => {
  const { body, required } = render(kind, operation)

  it('every 402 is valid for the protocol’s own schema', () => {
    expect(PaymentRequiredV2Schema.safeParse(required).error).toBeUndefined()
    for (const extension of Object.values(required.extensions ?? {}))
      expect(extension).toMatchObject({ info: expect.any(Object), schema: { type: 'object' } })
  })

  it('every 402 has name, tags and icon of the service', () => {
    expect(required.resource).toMatchObject({
      url: `https://farebox.example${operation.path}`,
      description: operation.summary,
      serviceName: 'farebox',
      iconUrl: 'https://farebox.example/favicon.svg',
    })
  })

  it('every 402 is read by the listing services’ parser, from header and body', () => {
    for (const payload of [required, { ...body, error: undefined }]) {
      const { valid, issues } = validatePaymentRequiredDetailed(payload)
      // A caller who gets a price has sent a valid request: only the probe describes one.
      expect(kind === 'probe' ? issues : issues.filter(({ code }) => !code.startsWith('SCHEMA_'))).toEqual([])
      expect(valid).toBe(kind === 'probe')
    }
  })

  it('every 402 passes nginx’s 4 KB with a long host name, and fits 8 KB with the longest one [spec F3]', () => {
    const refusal = kind === 'priced' ? new AppError(LONGEST_CODE) : undefined
    const usual = render(kind, operation, { url: `https://${LONG_HOST}`, refusal })
    expect(usual.header.length).toBeLessThan(USUAL_HEADER[kind])
    const longest = render(kind, operation, { url: `https://${LONGEST_HOST}`, refusal: new AppError(LONGEST_CODE) })
    expect(longest.header.length).toBeLessThanOrEqual(LONGEST_HEADER)
  })
})

describe('a priced 402', () => {
  it.each(operations)('tells a client that cannot sign it which two lines make it able to: $id', (operation) => {
    const { message } = render('priced', operation).body
    expect(message).toContain('X-PAYMENT')
    expect(message).toContain("import { UptoEvmScheme } from '@x402/evm/upto/client'")
    expect(message).toContain("client.register('eip155:8453', new UptoEvmScheme(account, { rpcUrl }))")
  })

  it.each(operations)('declares nothing that its payment would only repeat: $id', (operation) => {
    const { extensions = {} } = render('priced', operation).required
    expect(Object.keys(extensions).toSorted()).toEqual(['eip2612GasSponsoring', 'offer-receipt', 'payment-identifier'])
    expect(JSON.stringify(extensions).length).toBeLessThan(1000)
  })

  it('is understood by the official packages although its schemas are minimal', () => {
    const [chat] = operations
    if (!chat) throw new Error('There are no operations.')
    const { extensions = {} } = render('priced', chat).required
    const declared = extensions['payment-identifier']
    expect(validatePaymentIdentifier(declared)).toEqual({ valid: true })
    const identified = appendPaymentIdentifierToExtensions(structuredClone(extensions), 'id-of-the-payment')
    const payload = { extensions: identified } as unknown as PaymentPayload
    expect(extractAndValidatePaymentIdentifier(payload)).toEqual({
      id: 'id-of-the-payment',
      validation: { valid: true },
    })
  })
})

describe('a probe’s 402', () => {
  describe.each(operations)('of $id', (operation) => {
    const probed = render('probe', operation)
    const { required } = probed
    const bazaar = bazaarOf(required)
    const input = exampleOf(probed)

    it('a probe’s 402 is valid for the discovery extension', () => {
      expect(validateDiscoveryExtension(bazaar)).toEqual({ valid: true })
      expect(validateDiscoveryExtensionSpec({ ...bazaar })).toEqual({ valid: true })
    })

    it('a probe’s 402 has name, tags and icon of the service where a facilitator reads them', () => {
      const [accepted] = required.accepts
      if (!accepted) throw new Error('The 402 offers nothing.')
      const { resource, extensions } = required
      const payment = { x402Version: 2, accepted, payload: {}, resource, extensions }
      const found = extractDiscoveryInfo(payment as PaymentPayload, accepted)
      expect(found).toMatchObject({ method: 'POST', serviceName: 'farebox', description: operation.summary })
      // Facilitators drop tags that break their rules.
      expect(found?.tags).toEqual((resource as { tags?: string[] }).tags)
    })

    it('a probe’s 402 has an example with a key and a body that the endpoint accepts', () => {
      const { [operation.upload?.jsonField ?? '']: _upload, ...fields } = input.body
      expect(readIdempotencyKey(input.headers)).toMatch(/^[0-9a-f-]{36}$/)
      expect(operation.bodySchema.safeParse(fields).error).toBeUndefined()
      expect(input.method).toBe('POST')
    })

    it('a probe’s 402 proposes another key, so that callers who copy the example do not share one', () => {
      const again = exampleOf(render('probe', operation))
      expect(again.headers).not.toEqual(input.headers)
      expect(again.body).toEqual(input.body)
    })

    it('a probe’s 402 shows the fields of a request with their types and limits, and an example of the result', () => {
      const { schema, info } = bazaar
      expect(schema).toHaveProperty(['properties', 'input', 'properties', 'body', 'properties', 'model'])
      expect(schema).toHaveProperty(['properties', 'input', 'properties', 'headers', 'required'], ['x-idempotency-key'])
      expect(operation.resultSchema.safeParse(info.output?.example).error).toBeUndefined()
    })
  })
})

describe('listings in directories', () => {
  it('the example names a model that the operator serves', () => {
    const models = publishedCatalog.models.filter(({ id }) => id === 'textmodel-2.5-pro')
    const catalog = createCatalog({ ...publishedCatalog, models })
    const [chat] = operations
    if (!chat) throw new Error('There are no operations.')
    expect(exampleOf(render('probe', chat)).body['model']).not.toBe('textmodel-2.5-pro')
    expect(exampleOf(render('probe', chat, { catalog })).body).toMatchObject({ model: 'textmodel-2.5-pro' })
  })

  it('a 402 of an origin that listing services cannot reach has no icon', () => {
    const [chat] = operations
    if (!chat) throw new Error('There are no operations.')
    for (const url of ['http://127.0.0.1:8402', 'http://localhost:8402'])
      expect(render('probe', chat, { url }).required.resource).not.toHaveProperty('iconUrl')
  })
})

describe('the code of deployed contracts', () => {
  let canonical: { permit2: Hex; multicall3: Hex }
  beforeAll(async () => {
    const devnet = await startDevnet({})
    const codeAt = (address: string) => callRpc<Hex>(devnet.rpcUrl, 'eth_getCode', [address, 'latest'])
    canonical = {
      permit2: await codeAt(DEVNET_ADDRESSES.permit2),
      multicall3: await codeAt(DEVNET_ADDRESSES.multicall3),
    }
    await devnet.stop()
  })

  function permit2CodeHash(chainId: number): Hex {
    const domain = hashDomain({
      domain: { name: 'Permit2', chainId: BigInt(chainId), verifyingContract: DEVNET_ADDRESSES.permit2 },
      types: {
        EIP712Domain: [
          { name: 'name', type: 'string' },
          { name: 'chainId', type: 'uint256' },
          { name: 'verifyingContract', type: 'address' },
        ],
      },
    })
    const code = Buffer.from(canonical.permit2.slice(2), 'hex')
    Buffer.from(chainId.toString(16).padStart(64, '0'), 'hex').copy(code, CHAIN_ID_AT)
    Buffer.from(domain.slice(2), 'hex').copy(code, DOMAIN_AT)
    return keccak256(code)
  }
  test('the code hash of Permit2 follows from its code and the chain', () => {
    expect(permit2CodeHash(84_532)).toBe(ON_BASE_SEPOLIA)
    expect(permit2CodeHash(8453)).toBe(published('Permit2'))
  })

  test('the code hash of Multicall3 is that of its code', () => {
    expect(keccak256(canonical.multicall3)).toBe(published('Multicall3'))
  })
})

describe('the runbook', () => {
  test('the runbook has exactly one paragraph for each alert, in the same order', () => {
    expect([...runbook.keys()]).toEqual(alerts.map(({ alert }) => alert))
  })

  test.each([...runbook])('the runbook explains %s and what to do in one paragraph', (_name, text) => {
    expect(text).not.toContain('\n\n')
    expect(text.length).toBeGreaterThan(150)
  })

  test('the runbook names only existing alerts', () => {
    const named = [...runbook.values()].flatMap((text) => [...text.matchAll(/Farebox\w+/g)].map(([name]) => name))
    expect(named.filter((name) => !runbook.has(name))).toEqual([])
  })
})

describe('the alert rules', () => {
  test.each(alerts.map((alert) => [alert.alert, alert] as const))(
    'the alert rule %s can be parsed',
    (_name, { expr }) => {
      expect(parsePromQl(expr).selectors.length).toBeGreaterThan(expr === 'vector(1)' ? -1 : 0)
    },
  )

  test('each alert rule has a test in which it fires and one in which it stays silent', async () => {
    const { firing, silent } = await readTestedAlerts()
    const names = alerts.map(({ alert }) => alert)
    expect(names.filter((name) => !firing.has(name))).toEqual([])
    expect(names.filter((name) => !silent.has(name))).toEqual([WATCHDOG])
    expect([...firing, ...silent].filter((name) => !names.includes(name))).toEqual([])
  })

  test('alert rules have unique names', () => {
    expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length)
  })
})

describe('the dashboard', () => {
  test.each(panels.map((panel) => [panel.title, panel] as const))(
    'the queries of dashboard panel %s can be parsed',
    (_title, { targets }) => {
      expect(targets.length).toBeGreaterThan(0)
      for (const { expr } of targets) expect(parsePromQl(expr).selectors.length).toBeGreaterThan(0)
    },
  )

  test('dashboard panels have unique titles', () => {
    expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length)
  })
})
