import { isIP, isIPv4 } from 'node:net'
import { z } from 'zod'

/** The names of networks that such a list may contain, as Fastify defines them. */
export const NAMED_NETWORKS: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.1/8', '::1/128'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  uniquelocal: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
}
const ADDRESS_BITS: Readonly<Record<number, number>> = { 4: 32, 6: 128 }

/** Comma-separated addresses, networks (`10.0.0.0/8`) or names of networks, in the notations that Fastify accepts. */
export const trustedProxies = z
  .string()
  .transform((list) => list.split(',').map((entry) => entry.trim()))
  .pipe(z.array(z.string().refine(isNetwork, 'must be addresses or networks, such as 10.0.0.0/8')))

function isNetwork(entry: string): boolean {
  const [address = '', size, ...rest] = entry.split('/')
  const family = isIP(address)
  if (family === 0) return Object.hasOwn(NAMED_NETWORKS, entry)
  if (rest.length > 0) return false
  const isLength = size !== undefined && /^[1-9]\d{0,2}$/.test(size) && Number(size) <= (ADDRESS_BITS[family] ?? 0)
  return size === undefined || isLength || (family === 4 && isIPv4(size) && /^1+0*$/.test(netmaskBits(size)))
}

/** Returns the 32 binary digits of a netmask such as 255.255.0.0. */
export function netmaskBits(mask: string): string {
  return mask
    .split('.')
    .map((part) => Number(part).toString(2).padStart(8, '0'))
    .join('')
}
