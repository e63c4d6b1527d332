import { isIPv4, isIPv6 } from 'node:net'

const IPV6_GROUPS = 8
/** A host or a household usually holds one /64. */
const HOST_GROUPS = 4
/** A site usually holds one /48, which contains 65,536 networks of the size above. */
const SITE_GROUPS = 3

/**
 * Returns the network that one client controls, as the key of limits per client: an IPv4 address as it is, also when it
 * is mapped into IPv6, and the /64 of an IPv6 address, whose addresses a single host can use in turn.
 */
export function clientGroup(address: string): string {
  const groups = parseIPv6(address)
  return groups === null ? address : (ipv4In(groups) ?? prefix(groups, HOST_GROUPS))
}

/** Returns the /48 of an IPv6 address, or `null` for IPv4, which has no wider group. */
export function widerClientGroup(address: string): string | null {
  const groups = parseIPv6(address)
  return groups === null || ipv4In(groups) !== null ? null : prefix(groups, SITE_GROUPS)
}

/**
 * Returns the networks under which limits per client count a caller, the narrowest first: that of the host and, for
 * IPv6, that of the site.
 */
export function clientGroups(address: string): readonly string[] {
  const site = widerClientGroup(address)
  return site === null ? [clientGroup(address)] : [clientGroup(address), site]
}

/**
 * Returns the network that losses are counted for: an IPv4 /24 or an IPv6 /48. Wider than what one client controls, as
 * addresses next to each other are cheap to rent.
 */
export function clientNetwork(address: string): string {
  const site = widerClientGroup(address)
  if (site !== null) return site
  const host = clientGroup(address)
  return isIPv4(host) ? `${host.slice(0, host.lastIndexOf('.'))}.0/24` : host
}

/** Returns the eight groups of an IPv6 address, or `null` for anything else. */
function parseIPv6(address: string): number[] | null {
  // Most callers have IPv4 addresses, and every request asks several times.
  if (!address.includes(':')) return null
  const bare = address.split('%', 1)[0] ?? ''
  if (!isIPv6(bare)) return null
  const [head = '', tail] = bare.split('::')
  const before = parseGroups(head)
  const after = parseGroups(tail ?? '')
  return [...before, ...Array.from({ length: IPV6_GROUPS - before.length - after.length }, () => 0), ...after]
}

function parseGroups(text: string): number[] {
  if (text === '') return []
  return text.split(':').flatMap((group) => (group.includes('.') ? ipv4Groups(group) : [Number.parseInt(group, 16)]))
}

function ipv4Groups(dotted: string): number[] {
  const [a = 0, b = 0, c = 0, d = 0] = dotted.split('.').map(Number)
  return [a * 256 + b, c * 256 + d]
}

/** Returns the IPv4 address of an IPv4-mapped address (`::ffff:a.b.c.d`), which is how dual-stack sockets show IPv4. */
function ipv4In([a, b, c, d, e, mapped, high = 0, low = 0]: readonly number[]): string | null {
  if (mapped !== 0xffff || [a, b, c, d, e].some((group) => group !== 0)) return null
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}

function prefix(groups: readonly number[], length: number): string {
  return `${groups
    .slice(0, length)
    .map((group) => group.toString(16))
    .join(':')}::/${length * 16}`
}
