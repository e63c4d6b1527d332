import { lookup } from 'node:dns'
import { BlockList, isIP } from 'node:net'
import { Agent, fetch } from 'undici'
import { AppError } from '#shared/errors/app-error.ts'
import { type ImageMediaType, imageMediaType } from '#shared/operations/text/image-bytes.ts'
import { MemoryShort } from './execution.ts'

const MAXIMUM_BYTES = 10 * 1024 * 1024
const TIMEOUT_MS = 15_000
const MAXIMUM_REDIRECTS = 3

/** All addresses outside the public internet (IANA IPv4 and IPv6 special-purpose registries), by family. */
const privateAddresses = { ipv4: new BlockList(), ipv6: new BlockList() }
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const)
  privateAddresses.ipv4.addSubnet(network, prefix, 'ipv4')
for (const [network, prefix] of [
  // Only 2000::/3 is global unicast; loopback, mapped, translated and NAT64 IPv4 and all local addresses are outside.
  ['::', 3],
  ['4000::', 2],
  ['8000::', 1],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const)
  privateAddresses.ipv6.addSubnet(network, prefix, 'ipv6')

export function isPublicAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 0) return false
  const name = family === 6 ? 'ipv6' : 'ipv4'
  return !privateAddresses[name].check(address, name)
}

export interface RemoteImage {
  readonly bytes: Uint8Array
  readonly mediaType: ImageMediaType
}

export interface ImageFetcher {
  /**
   * Fetches until `signal` aborts or the fetcher's own time is over. Throws `image_unavailable` (400) with the reason,
   * which never reveals responses of a private network, and what `onBytes` throws for the bytes of a piece.
   */
  fetch(url: string, signal?: AbortSignal, onBytes?: (bytes: number) => void): Promise<RemoteImage>
}

/** The network that images are fetched from; tests replace the public internet. */
export interface ImageNetwork {
  readonly isAllowed: (address: string) => boolean
  readonly resolveName: typeof lookup
  /** Certificate authorities in PEM; absent: Node's own. */
  readonly ca?: string
  /** For the whole fetch, redirects included. */
  readonly timeoutMs: number
}

const publicInternet: ImageNetwork = { isAllowed: isPublicAddress, resolveName: lookup, timeoutMs: TIMEOUT_MS }

/**
 * Creates the fetcher of images that callers reference by URL: https only, and the address is checked inside the
 * connection's own DNS lookup, so DNS rebinding between check and connection has no effect. Every redirect is checked
 * the same way.
 */
export function createImageFetcher(overrides: Partial<ImageNetwork> = {}): ImageFetcher {
  const { isAllowed, resolveName, ca, timeoutMs } = { ...publicInternet, ...overrides }
  const agent = new Agent({
    connect: {
      ...(ca === undefined ? {} : { ca }),
      lookup: (hostname, options, callback) => {
        resolveName(hostname, { ...options, all: true }, (error, addresses) => {
          if (error) callback(error, [])
          else if (addresses.length === 0 || addresses.some(({ address }) => !isAllowed(address)))
            callback(Object.assign(new Error('address not allowed'), { code: 'EACCES' }), [])
          else callback(null, addresses)
        })
      },
    },
  })
  return {
    fetch: (url, signal, onBytes = () => undefined) => {
      const timeout = AbortSignal.timeout(timeoutMs)
      const ended = signal === undefined ? timeout : AbortSignal.any([signal, timeout])
      return fetchChecked(url, { agent, isAllowed, signal: ended, onBytes })
    },
  }
}

interface Fetching {
  readonly agent: Agent
  readonly signal: AbortSignal
  readonly onBytes: (bytes: number) => void
}

async function fetchChecked(
  url: string,
  { agent, isAllowed, signal, onBytes }: Pick<ImageNetwork, 'isAllowed'> & Fetching,
): Promise<RemoteImage> {
  let target = readUrl(url)
  for (let redirects = 0; redirects <= MAXIMUM_REDIRECTS; redirects += 1) {
    requireAllowed(target, isAllowed)
    const response = await fetch(target, { dispatcher: agent, redirect: 'manual', signal }).catch(() => {
      throw unavailable('it could not be fetched')
    })
    const location = response.headers.get('location')
    if (response.status >= 300 && response.status < 400 && location !== null) {
      await response.body?.cancel()
      target = readUrl(location, target)
      continue
    }
    if (response.status !== 200) throw unavailable(`its server responded with status ${response.status}`)
    const bytes = await readCapped(response.body, onBytes)
    const mediaType = imageMediaType(bytes)
    if (!mediaType) throw unavailable('it is not a PNG, JPEG, WebP or GIF image')
    return { bytes, mediaType }
  }
  throw unavailable(`it redirects more than ${MAXIMUM_REDIRECTS} times`)
}

function readUrl(text: string, base?: URL): URL {
  const url = URL.parse(text, base?.href)
  if (!url) throw unavailable('its URL is not valid')
  return url
}

/** Checks the scheme and literal addresses, which never reach the DNS lookup. */
function requireAllowed({ protocol, hostname }: URL, isAllowed: (address: string) => boolean): void {
  if (protocol !== 'https:') throw unavailable('only https URLs are fetched')
  const literal = hostname.replace(/^\[|\]$/g, '')
  if (isIP(literal) !== 0 && !isAllowed(literal)) throw unavailable('it could not be fetched')
}

async function readCapped(
  body: AsyncIterable<Uint8Array> | null,
  onBytes: (bytes: number) => void,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of body ?? []) {
      size += chunk.length
      if (size > MAXIMUM_BYTES) throw unavailable(`it is larger than ${MAXIMUM_BYTES.toLocaleString('en')} bytes`)
      onBytes(chunk.length)
      chunks.push(chunk)
    }
  } catch (error) {
    throw error instanceof AppError || error instanceof MemoryShort
      ? error
      : unavailable('it could not be read completely')
  }
  return Buffer.concat(chunks)
}

function unavailable(reason: string): AppError {
  return new AppError('image_unavailable', {
    message: `An image of the request cannot be used: ${reason}. Nothing was charged.`,
  })
}
