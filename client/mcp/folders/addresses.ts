import { BlockList, isIPv4 } from 'node:net'

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
