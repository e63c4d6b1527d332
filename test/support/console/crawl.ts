import type { ConsoleRoute } from '../../../operator/rendering/console.ts'
import { type PageForm, readFilters, readForms, readLinks } from './read-markup.ts'

/** What can be reached from the console's first page. */
export interface Crawled {
  /** Addresses by the path of their route, each with a page or a download. */
  readonly addresses: ReadonlyMap<string, readonly string[]>
  /** A form of each action, by the path of its route, and the address of the page that it is on. */
  readonly forms: ReadonlyMap<string, PageForm & { readonly page: string }>
  /** Names of the filters of each address without a query. */
  readonly filters: ReadonlyMap<string, ReadonlySet<string>>
}

interface Answer {
  readonly status: number
  readonly body: string
  readonly headers: Readonly<Record<string, unknown>>
}

/**
 * Follows every link and notes every form. Of a route with parameters, `addressesEach` addresses are read.
 * Throws when a link leads to an error.
 */
export async function crawl(
  get: (address: string) => Promise<Answer>,
  routes: readonly ConsoleRoute[],
  addressesEach = 8,
): Promise<Crawled> {
  const addresses = new Map<string, string[]>()
  const forms = new Map<string, PageForm & { page: string }>()
  const filters = new Map<string, Set<string>>()
  const queue = ['/operator']
  for (const address of queue) {
    const { status, body, headers } = await get(address)
    if (status !== 200) throw new Error(`${address} answers ${status}`)
    if (!String(headers['content-type']).startsWith('text/html')) continue
    for (const form of readForms(body)) {
      const route = routeOf(form.action, routes, 'action')
      if (!forms.has(route)) forms.set(route, { ...form, page: address })
    }
    for (const form of readFilters(body)) addTo(filters, form.action, Object.keys(form.fields))
    for (const link of readLinks(body)) {
      const { origin, pathname, search } = new URL(link, 'http://console.test')
      if (origin !== 'http://console.test') throw new Error(`${address} links to ${link}`)
      const next = `${pathname}${search}`
      if (link.startsWith('#') || queue.includes(next)) continue
      addTo(filters, pathname, [...new URL(next, 'http://console.test').searchParams.keys()])
      const route = routeOf(next, routes, 'page', 'download')
      const known = addresses.get(route) ?? []
      addresses.set(route, known)
      if (known.length >= addressesEach) continue
      known.push(next)
      queue.push(next)
    }
  }
  return { addresses, forms, filters }
}

function addTo(filters: Map<string, Set<string>>, path: string, names: readonly string[]): void {
  const known = filters.get(path) ?? new Set()
  filters.set(path, known)
  for (const name of names) known.add(name)
}

/** Returns the path of the route that serves an address. */
export function routeOf(address: string, routes: readonly ConsoleRoute[], ...kinds: ConsoleRoute['kind'][]): string {
  const { pathname } = new URL(address, 'http://console.test')
  const found = routes
    .filter(({ kind, path }) => kinds.includes(kind) && matches(pathname, path))
    // A fixed name comes before a parameter, as in the router.
    .toSorted((left, right) => left.path.split(':').length - right.path.split(':').length)
  if (!found[0]) throw new Error(`no ${kinds.join(' or ')} of the console has the address ${address}`)
  return found[0].path
}

function matches(pathname: string, path: string): boolean {
  const [given, expected] = [pathname.split('/'), path.split('/')]
  return (
    given.length === expected.length && expected.every((part, index) => part.startsWith(':') || part === given[index])
  )
}
