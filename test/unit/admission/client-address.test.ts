import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { clientGroup, clientGroups, widerClientGroup } from '../../../api/request/client-address.ts'

describe('the network of a client', () => {
  it.each([
    ['203.0.113.9', '203.0.113.9', null],
    ['::ffff:203.0.113.9', '203.0.113.9', null],
    ['::FFFF:cb00:7109', '203.0.113.9', null],
    ['0:0:0:0:0:ffff:203.0.113.9', '203.0.113.9', null],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64', '2001:db8:1::/48'],
    ['2001:DB8:0001:0002::', '2001:db8:1:2::/64', '2001:db8:1::/48'],
    ['2001:db8::1', '2001:db8:0:0::/64', '2001:db8:0::/48'],
    ['::1', '0:0:0:0::/64', '0:0:0::/48'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64', 'fe80:0:0::/48'],
    ['64:ff9b::203.0.113.9', '64:ff9b:0:0::/64', '64:ff9b:0::/48'],
    ['::', '0:0:0:0::/64', '0:0:0::/48'],
    ['not an address', 'not an address', null],
  ])('of %s is %s, within the site %s', (address, group, site) => {
    expect([clientGroup(address), widerClientGroup(address)]).toEqual([group, site])
    expect(clientGroups(address)).toEqual(site === null ? [group] : [group, site])
  })

  it('all hosts of a /64 are one client, regardless of how their addresses are written', () => {
    const part = fc.integer({ min: 0, max: 0xffff }).map((value) => value.toString(16))
    const four = fc.tuple(part, part, part, part)
    fc.assert(
      fc.property(four, four, four, (network, one, other) => {
        const [first, second] = [[...network, ...one].join(':'), [...network, ...other].join(':').toUpperCase()]
        expect(clientGroup(first)).toBe(clientGroup(second))
        expect(widerClientGroup(first)).toBe(widerClientGroup(second))
      }),
    )
  })
})
