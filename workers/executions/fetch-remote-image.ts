import { lookup as resolveName } from 'node:dns'
import { BlockList, isIP } from 'node:net'
import { Agent, fetch } from 'undici'
import { AppError } from '#shared/errors/app-error.ts'
import { type ImageMediaType, imageMediaType } from '#shared/operations/image-bytes.ts'

/** What a fetched image may weigh and how long the whole fetch may take, redirects included. */
const MAXIMUM_BYTES = 10 * 1024 * 1024
const TIMEOUT_MS = 15_000
const MAXIMUM_REDIRECTS = 3

/** Everything that is not the public internet, for both address families (IANA special-purpose registries). */
const privateAddresses = new BlockList()
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
  privateAddresses.addSubnet(network, prefix, 'ipv4')
for (const [network, prefix] of [
  ['::', 96],
  ['::ffff:0:0', 96],
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
  ['5f00::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['ff00::', 8],
] as const)
  privateAddresses.addSubnet(network, prefix, 'ipv6')

export function isPublicAddress(address: string): boolean {
  const family = isIP(address)
  return family !== 0 && !privateAddresses.check(address, family === 6 ? 'ipv6' : 'ipv4')
}

export interface RemoteImage {
  readonly bytes: Uint8Array
  readonly mediaType: ImageMediaType
}

export interface ImageFetcher {
  /** Throws `image_unavailable` (400) with what was wrong; the message never tells what an inner network answered. */
  fetch(url: string): Promise<RemoteImage>
}

/**
 * Fetches images that callers name by URL: https only, and the address is checked inside the connection's own lookup, so
 * that a name which changes its mind between check and connection gains nothing. Every redirect is checked alike.
 */
export function createImageFetcher(isAllowed: (address: string) => boolean = isPublicAddress): ImageFetcher {
  const agent = new Agent({
    connect: {
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
  return { fetch: (url) => fetchChecked(url, agent, isAllowed) }
}

async function fetchChecked(url: string, agent: Agent, isAllowed: (address: string) => boolean): Promise<RemoteImage> {
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  let target = new URL(url)
  for (let redirects = 0; redirects <= MAXIMUM_REDIRECTS; redirects += 1) {
    requireAllowed(target, isAllowed)
    const response = await fetch(target, { dispatcher: agent, redirect: 'manual', signal }).catch(() => {
      throw unavailable('it could not be fetched')
    })
    const location = response.headers.get('location')
    if (response.status >= 300 && response.status < 400 && location !== null) {
      await response.body?.cancel()
      target = new URL(location, target)
      continue
    }
    if (response.status !== 200) throw unavailable(`its server answers ${response.status}`)
    const bytes = await readCapped(response.body)
    const mediaType = imageMediaType(bytes)
    if (!mediaType) throw unavailable('it is not a PNG, JPEG, WebP or GIF image')
    return { bytes, mediaType }
  }
  throw unavailable(`it redirects more than ${MAXIMUM_REDIRECTS} times`)
}

/** Literal addresses never reach the lookup, so they are checked here. */
function requireAllowed({ protocol, hostname }: URL, isAllowed: (address: string) => boolean): void {
  if (protocol !== 'https:') throw unavailable('only https is fetched')
  const literal = hostname.replace(/^\[|\]$/g, '')
  if (isIP(literal) !== 0 && !isAllowed(literal)) throw unavailable('it could not be fetched')
}

async function readCapped(body: AsyncIterable<Uint8Array> | null): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of body ?? []) {
      size += chunk.length
      if (size > MAXIMUM_BYTES) throw unavailable(`it has more than ${MAXIMUM_BYTES.toLocaleString('en')} bytes`)
      chunks.push(chunk)
    }
  } catch (error) {
    throw error instanceof AppError ? error : unavailable('it could not be read to its end')
  }
  return Buffer.concat(chunks)
}

function unavailable(why: string): AppError {
  return new AppError('image_unavailable', {
    message: `An image of the request cannot be used: ${why}. Nothing was charged.`,
  })
}
