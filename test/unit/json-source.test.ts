import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson, jsonText, storedJson } from '#shared/digests/canonical-json.ts'
import { JsonSource, parseKeepingSources } from '#shared/json/json-source.ts'
import { canonicalNumber, parseJsonTree, writeCanonicalTree, writeJsonTree } from '#shared/json/json-tree.ts'
import { pathToUnstorable } from '#shared/json/untrusted-json.ts'
import { jsonTexts, numberText, objectTexts } from '../support/json/random-json.ts'

const RUNS = { numRuns: 10_000 }
const NAMES = new Set(['parameters', 'input'])

describe('a JSON tree', () => {
  it('is written as it was read', () => {
    fc.assert(
      fc.property(jsonTexts, (text) => writeJsonTree(parseJsonTree(text)) === text),
      RUNS,
    )
  })

  it('has the canonical text that its value had before sources were kept, where no digit is lost', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const text = JSON.stringify(value)
        return writeCanonicalTree(parseJsonTree(text)) === canonicalJson(JSON.parse(text) as never)
      }),
      RUNS,
    )
  })

  it('has a canonical text that is JSON again, and its own canonical text', () => {
    fc.assert(
      fc.property(jsonTexts, (text) => {
        const canonical = writeCanonicalTree(parseJsonTree(text))
        expect(writeCanonicalTree(parseJsonTree(canonical))).toBe(canonical)
        // JSON.stringify writes -0 as 0.
        expect(canonicalJson(JSON.parse(canonical) as never)).toBe(canonicalJson(JSON.parse(text) as never))
      }),
      { numRuns: 2000 },
    )
  })
})

/** Adds what changes the spelling of a number and not its value. */
function respelled(text: string): string {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e')
  const zeros = mantissa.includes('.') ? `${mantissa}00` : `${mantissa}.00`
  return `${zeros}E${Number(exponent) < 0 ? '' : '+'}${Number(exponent)}`
}

/** Returns a number of another value, by a last digit far behind the others. */
function changed(text: string): string {
  const [mantissa = '', exponent] = text.toLowerCase().split('e')
  return `${mantissa.includes('.') ? mantissa : `${mantissa}.0`}${'0'.repeat(30)}1${exponent === undefined ? '' : `e${exponent}`}`
}

describe('the canonical text of a number', () => {
  it('is the same for every spelling', () => {
    fc.assert(
      fc.property(numberText, (text) => canonicalNumber(respelled(text)) === canonicalNumber(text)),
      RUNS,
    )
  })

  it('differs by any digit', () => {
    fc.assert(
      fc.property(numberText, (text) => canonicalNumber(changed(text)) !== canonicalNumber(text)),
      RUNS,
    )
  })

  it('is that of the JavaScript number where that has the same value', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
        expect(canonicalNumber(JSON.stringify(number))).toBe(JSON.stringify(number))
      }),
      RUNS,
    )
    expect(['1.0', '10e-1', '0.00', '-0.0e7', '1e21'].map(canonicalNumber)).toEqual(['1', '1', '0', '0', '1e+21'])
    expect(['9007199254740993', '9007199254740992'].map(canonicalNumber)).toEqual([
      '9007199254740993e0',
      '9007199254740992',
    ])
  })

  it('throws beyond the range of JSON parsers', () => {
    for (const text of ['1e400', '-1e400', `1e-${'9'.repeat(16)}`])
      expect(() => canonicalNumber(text)).toThrow(TypeError)
    expect(canonicalNumber(`0e${'9'.repeat(20)}`)).toBe('0')
  })

  it('takes a number of a million digits', () => {
    const long = `0.${'0'.repeat(1_000_000)}1`
    expect(canonicalNumber(long)).toBe('1e-1000001')
    expect(canonicalNumber(`1.${'0'.repeat(1_000_000)}`)).toBe('1')
  })
})

const at = (text: string) => pathToUnstorable(parseKeepingSources(text, NAMES))

describe('a text whose objects are kept', () => {
  it('keeps each object under a name as it was written, without spaces', () => {
    fc.assert(
      fc.property(objectTexts, jsonTexts, (object, other) => {
        const text = `{ "tools" : [ { "parameters" :\n${object} }, ${other} ] }`
        const { tools } = parseKeepingSources(text, NAMES) as { tools: { parameters: JsonSource }[] }
        return tools[0]?.parameters.text === object
      }),
      RUNS,
    )
  })

  it('leaves out the spaces between its tokens, and none of its strings', () => {
    const { input } = parseKeepingSources('{"input": { "a b" : [ 1.50 , "c , d" ] }}', NAMES) as { input: JsonSource }
    expect(input.text).toBe('{"a b":[1.50,"c , d"]}')
  })

  it('keeps nothing inside of what it keeps, and no other values', () => {
    const text = '{"parameters":{"input":{"a":1.0}},"input":[{"parameters":"x"}],"b":{"input":null},"c":{"d":{}}}'
    const parsed = parseKeepingSources(text, NAMES) as Record<string, unknown>
    expect(parsed).toEqual({
      parameters: new JsonSource('{"input":{"a":1.0}}'),
      input: [{ parameters: 'x' }],
      b: { input: null },
      c: { d: {} },
    })
  })

  it('finds a name that an escape spells', () => {
    expect(parseKeepingSources('{"\\u0069nput":{"id":9007199254740993}}', NAMES)).toEqual({
      input: new JsonSource('{"id":9007199254740993}'),
    })
  })

  it('throws as JSON.parse does', () => {
    for (const text of ['', '{"input":{}', '{"input":{},}', '{"input":{/**/}}', "{'input':{}}"])
      expect(() => parseKeepingSources(text, NAMES)).toThrow(SyntaxError)
  })

  it('is written back with its digits and order, and digested by its value', () => {
    const value = { b: 1, schema: new JsonSource('{"2":1.0,"1":9007199254740993}') }
    expect(jsonText(value)).toBe('{"b":1,"schema":{"2":1.0,"1":9007199254740993}}')
    expect(storedJson({ schema: value.schema, a: 1 })).toBe('{"a":1,"schema":{"2":1.0,"1":9007199254740993}}')
    expect(canonicalJson(value)).toBe('{"b":1,"schema":{"1":9007199254740993e0,"2":1}}')
  })

  it('is searched for text that cannot be stored', () => {
    expect(at('{"input":{"a":["\\ud800"]}}')).toEqual(['input', 'a', 0])
    expect(at('{"input":{"a\\u0000":1}}')).toEqual(['input', 'a\0'])
    expect(at('{"input":{"a":"\\\\u0000 \\ud83d\\ude00"}}')).toBeNull()
  })
})
