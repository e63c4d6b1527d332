import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { DIALECTS, type Dialect, describePassedThrough, names, storedText } from '../support/json/passed-through.ts'
import { numberText } from '../support/json/random-json.ts'

// `test/system/payments/fidelity.test.ts` tries ten times as many values.
describePassedThrough(100)

const digestOf = (dialect: Dialect, body: string) => storedText(dialect, body).requestDigest

const withNumber = (dialect: Dialect, number: string, other = '{}') =>
  DIALECTS[dialect]({
    schemas: names.map(() => `{"type":"object","properties":{"a":{"minimum":${number}}}}`),
    answer: `{"type":"object","title":"t"}`,
    calls: dialect === 'messages' ? [`{"id":${number}}`, other] : ['{"id":1}'],
  })

describe('the digest', () => {
  test.each(['chat', 'messages'] as const)('differs by every digit of a number: %s', (dialect) => {
    const near = ['9007199254740992', '9007199254740993', '9007199254740993.5', '9007199254740993e1']
    expect(new Set(near.map((number) => digestOf(dialect, withNumber(dialect, number)))).size).toBe(near.length)
    fc.assert(
      fc.property(numberText, (number) => {
        const longer = /[eE]/.test(number) ? number : `${number}${number.includes('.') ? '' : '.'}${'0'.repeat(30)}1`
        fc.pre(longer !== number)
        return digestOf(dialect, withNumber(dialect, number)) !== digestOf(dialect, withNumber(dialect, longer))
      }),
      { numRuns: 500 },
    )
  })

  test.each(['chat', 'messages'] as const)('knows neither order nor spelling: %s', (dialect) => {
    const spelled = withNumber(dialect, '1.0', '{"a":1,"b":2e0}')
    expect(digestOf(dialect, spelled)).toBe(digestOf(dialect, withNumber(dialect, '1', '{"b": 2, "a": 1}')))
  })

  test('is for plain requests what it was before sources were kept', () => {
    // Computed at 8daa163d.
    expect(digestOf('chat', withNumber('chat', '5'))).toBe(
      '4732ef88dd7e2fee228b35a10ba4528862634ef234e106f6a05f29655c0664b0',
    )
    expect(digestOf('messages', withNumber('messages', '5', '{"b":[1.5,{"z":null}],"a":"é"}'))).toBe(
      '49e73232faa4b55790e4ce6b53faa24ef0259529a143a8f0da6e293d431908af',
    )
  })

  test('is not the digest of the stored text where that has digits of its own', () => {
    const { text } = storedText('chat', withNumber('chat', '5.0'))
    expect(sha256Hex(text)).not.toBe(digestOf('chat', withNumber('chat', '5.0')))
    expect(text).toContain('"minimum":5.0')
  })
})
