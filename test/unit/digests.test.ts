import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson, type JsonValue, sha256Hex } from '#shared/digests/canonical-json.ts'

const values = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<JsonValue>
/** Returns the same value with the keys of every object in another order. */
function shuffled(value: JsonValue): JsonValue {
  if (value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map(shuffled)
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, member]) => [key, member === undefined ? undefined : shuffled(member)]),
  )
}
/** Values that JSON can distinguish: it has no -0. */
function normalized(value: JsonValue): unknown {
  return JSON.parse(JSON.stringify(value))
}

describe('canonical JSON', () => {
  it('canonical JSON does not depend on the order of keys', () => {
    fc.assert(fc.property(values, (value) => canonicalJson(shuffled(value)) === canonicalJson(value)))
  })

  it('canonical JSON parses back to the same value', () => {
    fc.assert(
      fc.property(values, (value) => {
        expect(JSON.parse(canonicalJson(value))).toEqual(normalized(value))
      }),
    )
  })

  it('different values have different canonical JSON', () => {
    fc.assert(
      fc.property(values, values, (one, other) => {
        const same = isDeepStrictEqual(normalized(one), normalized(other))
        return (canonicalJson(one) === canonicalJson(other)) === same
      }),
      { numRuns: 2000 },
    )
  })

  it('distinguishes values that look similar', () => {
    const similar: JsonValue[] = [
      null,
      'null',
      0,
      '0',
      false,
      'false',
      '',
      [],
      {},
      [[]],
      [{}],
      [''],
      ['a,b'],
      ['a', 'b'],
    ]
    expect(new Set(similar.map(canonicalJson)).size).toBe(similar.length)
    expect(canonicalJson({ a: 'b","c":"d' })).not.toBe(canonicalJson({ a: 'b', c: 'd' }))
  })

  it('leaves out undefined properties only', () => {
    expect(canonicalJson({ b: undefined, a: null })).toBe('{"a":null}')
  })

  it('orders keys by code unit at every depth', () => {
    expect(canonicalJson({ é: 1, b: { z: 1, Z: 2 }, a: [{ y: 1, x: 2 }], 10: 1, 9: 1 })).toBe(
      '{"10":1,"9":1,"a":[{"x":2,"y":1}],"b":{"Z":2,"z":1},"é":1}',
    )
  })

  it('throws for a number that JSON cannot represent', () => {
    for (const number of [NaN, Infinity, -Infinity]) {
      expect(() => canonicalJson(number)).toThrow(TypeError)
      expect(() => canonicalJson({ a: [number] })).toThrow(TypeError)
    }
  })
})

it('computes the standard SHA-256 over UTF-8', () => {
  expect(sha256Hex('')).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  expect(sha256Hex('é')).toBe(sha256Hex(Uint8Array.of(0xc3, 0xa9)))
})
