import type { FastifyInstance } from 'fastify'
import type { Catalog } from '#shared/catalog/catalog.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { llmsText, skillText } from '../openapi/guidance.ts'
import { HOME_PAGE_POLICY, homePage } from '../openapi/home-page.ts'
import { acceptQuality } from '../request/headers.ts'
import { type CurrentCatalog, derived } from '../request/live-catalog.ts'
import { addCachedResponse, addStaticResponse, type Representation, representationOf } from './static-response.ts'

interface PagesInput {
  readonly catalog: CurrentCatalog
  readonly terms: Pick<PaymentTerms, 'network'>
  readonly publicBaseUrl: string
  /** Where to report a vulnerability, or `undefined` when the operator publishes no contact. */
  readonly securityContact: string | undefined
  readonly now: () => Date
}

const TEXT = 'text/plain; charset=utf-8'
const MARKDOWN = 'text/markdown; charset=utf-8'

/** Adds the pages that people, agents and crawlers look for at an origin they do not know. */
export function addPages(app: FastifyInstance, input: PagesInput): void {
  const { catalog, terms, publicBaseUrl } = input
  addHomePage(app, input)
  const guidance = derived(catalog, (current) => representationOf(TEXT, llmsText(current, publicBaseUrl)))
  addCachedResponse(app, '/llms.txt', guidance)
  const skill = derived(catalog, (current) =>
    representationOf(MARKDOWN, skillText(current, publicBaseUrl, terms.network)),
  )
  for (const path of ['/SKILL.md', '/skill.md']) addCachedResponse(app, path, skill)
  addStaticResponse(app, '/robots.txt', { contentType: TEXT, body: ROBOTS })
  addSecurityContact(app, input)
}

/** Adds `/` as HTML, or as the text of `/llms.txt` to clients that prefer Markdown or plain text. */
function addHomePage(app: FastifyInstance, { catalog, publicBaseUrl }: PagesInput): void {
  const offered = derived(catalog, (current) => homePages(current, publicBaseUrl))
  const choose = (accept: string | undefined): Representation =>
    offered().reduce((best, other) =>
      acceptQuality(accept, other.type) > acceptQuality(accept, best.type) ? other : best,
    ).page
  addCachedResponse(app, '/', ({ headers }) => choose(headers.accept), {
    vary: 'Accept',
    'content-security-policy': HOME_PAGE_POLICY,
  })
}

/** Returns the page in its types. The first one wins when the client has no preference. */
function homePages(catalog: Catalog, publicBaseUrl: string) {
  const text = llmsText(catalog, publicBaseUrl)
  return [
    { type: 'text/html', page: representationOf('text/html; charset=utf-8', homePage(catalog, publicBaseUrl)) },
    { type: 'text/markdown', page: representationOf(MARKDOWN, text) },
    { type: 'text/plain', page: representationOf(TEXT, text) },
  ] as const
}

/** Receipts and media are capabilities, which must not be indexed should a link to one be published. */
const ROBOTS = `User-agent: *
Disallow: /media/
Disallow: /v1/receipts/
`

const DAY_MS = 86_400_000
/** RFC 9116 recommends less than a year; the date moves on as long as the operator keeps the setting. */
const CONTACT_DAYS = 90

/** Adds `/.well-known/security.txt` (RFC 9116) if the operator publishes a contact. */
function addSecurityContact(app: FastifyInstance, { securityContact, publicBaseUrl, now }: PagesInput): void {
  if (securityContact === undefined) return
  const path = '/.well-known/security.txt'
  addCachedResponse(app, path, () => {
    const expires = new Date((Math.floor(now().getTime() / DAY_MS) + CONTACT_DAYS) * DAY_MS)
    const lines = [
      `Contact: ${securityContact}`,
      `Expires: ${expires.toISOString()}`,
      'Preferred-Languages: en',
      `Canonical: ${new URL(path, publicBaseUrl).href}`,
    ]
    return representationOf(TEXT, `${lines.join('\n')}\n`)
  })
}
