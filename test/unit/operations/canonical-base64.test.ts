import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeCanonicalBase64 } from '#shared/operations/canonical-base64.ts'

/** The definition: canonical is what decodes and encodes back to itself. */
function isCanonical(text: string): boolean {
  return text !== '' && Buffer.from(text, 'base64').toString('base64') === text
}

/** Around the size of a slice, where one that were decoded with a wrong border would lose or repeat bytes. */
const byteCounts = fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 12_280, max: 12_296 }))
const canonical = byteCounts.chain((length) =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((bytes) => Buffer.from(bytes).toString('base64')),
)
/** Characters that decoders take for others, skip, or stop at. */
const suspicious = fc.constantFrom('-', '_', '=', '==', ' ', '\n', '\0', '+', '/', 'A', '"', '\\', 'é', 'Ł', '字')

describe('decoding canonical Base64', () => {
  it('decodes every canonical text to its bytes, as a string and as bytes', () => {
    fc.assert(
      fc.property(canonical, (text) => {
        const expected = Buffer.from(text, 'base64')
        expect(decodeCanonicalBase64(text)?.equals(expected)).toBe(true)
        expect(decodeCanonicalBase64(Buffer.from(text))?.equals(expected)).toBe(true)
      }),
    )
  })

  it('refuses exactly the texts that do not encode back to themselves, wherever they are changed', () => {
    fc.assert(
      fc.property(canonical, suspicious, fc.nat(), fc.boolean(), (text, inserted, place, replaces) => {
        const at = place % (text.length + 1)
        const changed = text.slice(0, at) + inserted + text.slice(replaces ? at + inserted.length : at)
        expect(decodeCanonicalBase64(changed) !== null).toBe(isCanonical(changed))
        expect(decodeCanonicalBase64(Buffer.from(changed)) !== null).toBe(isCanonical(changed))
      }),
      { numRuns: 500 },
    )
  })

  it.each([
    '',
    'A',
    'AA',
    'AAA',
    'AA=',
    'A===',
    '====',
    'AB==',
    'AAB=',
    'AA==AAAA',
    'AAAA\n',
    'AAA-',
    'ŁAAA',
    'AAAA=AAA',
  ])('refuses %j', (text) => {
    expect(isCanonical(text)).toBe(false)
    expect(decodeCanonicalBase64(text)).toBeNull()
    expect(decodeCanonicalBase64(Buffer.from(text))).toBeNull()
  })
})
