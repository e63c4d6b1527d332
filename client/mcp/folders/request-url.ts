import { lookup as lookUp } from 'node:dns'
import { type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { BlockList, isIP, isIPv4, type LookupFunction } from 'node:net'
import { type FareboxError, uncharged } from '../../wire/farebox-error.ts'

/** Addresses that are not of the public internet, as IANA lists them. Those that embed an IPv4 address are refused whole. */
const PRIVATE_IPV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]
/** Within 2000::/3; everything outside of it is not public either. */
const PRIVATE_IPV6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']

const publicIpv6 = listOf(['2000::/3'], 'ipv6')
const privateIpv6 = listOf(PRIVATE_IPV6, 'ipv6')
const privateIpv4 = listOf(PRIVATE_IPV4, 'ipv4')

const MOST_REDIRECTS = 5

interface UrlRequest {
  readonly signal: AbortSignal
  readonly allowsPrivateAddresses: boolean
}

/**
 * Requests a URL and returns its answer, whose body is not read yet. Each address that is connected to is checked, those
 * of redirects included: a name cannot mean another address when it is connected to. Sends no credentials and no cookies.
 */
export async function requestUrl(named: string, options: UrlRequest): Promise<IncomingMessage> {
  let url = readUrl(named)
  for (let redirects = 0; ; redirects += 1) {
    const answer = await send(url, options)
    const { statusCode: status = 0, headers } = answer
    if (status === 200) return answer
    answer.destroy()
    if (![301, 302, 303, 307, 308].includes(status) || headers.location === undefined)
      throw failed(`The server of the URL answered with the status ${status}.`)
    if (redirects >= MOST_REDIRECTS) throw failed(`The URL redirects more than ${MOST_REDIRECTS} times.`)
    url = readUrl(headers.location, url)
  }
}

function readUrl(text: string, from?: URL): URL {
  if (!URL.canParse(text, from?.href)) throw refused('The URL cannot be read.')
  const url = new URL(text, from?.href)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused('The URL is not one of http or https.')
  if (from?.protocol === 'https:' && url.protocol === 'http:') throw refused('The URL redirects from https to http.')
  if (url.username !== '' || url.password !== '') throw refused('The URL has a name or a password in it.')
  return url
}

async function send(url: URL, { signal, allowsPrivateAddresses }: UrlRequest): Promise<IncomingMessage> {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  // An address is connected to without a look-up.
  if (!allowsPrivateAddresses && isIP(host) !== 0 && !isPublicAddress(host)) throw privateAddress()
  const request = url.protocol === 'https:' ? requestHttps : requestHttp
  const headers = { accept: 'audio/*, video/*, application/octet-stream, */*;q=0.1', 'accept-encoding': 'identity' }
  const sent = request(url, {
    agent: false,
    headers,
    signal,
    ...(allowsPrivateAddresses ? {} : { lookup: lookUpPublic }),
  })
  sent.end()
  return await answerOf(sent, signal)
}

async function answerOf(sent: ClientRequest, signal: AbortSignal): Promise<IncomingMessage> {
  return await new Promise((resolve, reject) => {
    sent.once('response', resolve)
    sent.on('error', (cause: Error) => {
      if (signal.aborted) reject(signal.reason as Error)
      else reject('isRefusal' in cause ? privateAddress() : failed('The server of the URL cannot be reached.', cause))
    })
  })
}

/** Looks a name up, and refuses it if any of its addresses is private. */
const lookUpPublic: LookupFunction = (hostname, options, done) => {
  lookUp(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return done(error, '')
    const [first] = addresses
    if (first === undefined || !addresses.every(({ address }) => isPublicAddress(address)))
      return done(Object.assign(new Error('a private address'), { isRefusal: true }), '')
    if (options.all === true) done(null, addresses)
    else done(null, first.address, first.family)
  })
}

function privateAddress(): FareboxError {
  return uncharged(
    'address_not_allowed',
    'The URL leads to an address of this machine or of a private network.',
    'Name a public URL. The person may allow others where the server is started: farebox mcp --allow-private-addresses',
  )
}

function refused(problem: string): FareboxError {
  return uncharged('url_not_allowed', problem, 'Name a public https URL of a recording.')
}

export function failed(problem: string, cause?: unknown): FareboxError {
  return uncharged('fetch_failed', problem, 'Check the URL, or repeat the call later.', cause)
}

/** Returns whether an address belongs to the public internet, so neither to this machine nor to its networks. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !privateIpv4.check(address, 'ipv4')
  return publicIpv6.check(address, 'ipv6') && !privateIpv6.check(address, 'ipv6')
}

function listOf(ranges: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList()
  for (const range of ranges) {
    const [address = '', prefix] = range.split('/')
    list.addSubnet(address, Number(prefix), family)
  }
  return list
}
