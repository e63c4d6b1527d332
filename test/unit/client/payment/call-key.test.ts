import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bodyDigest } from '../../../../client/payment/body-digest.ts'
import { deriveCallKey } from '../../../../client/payment/call-key.ts'
import { canonicalJson } from '../../../../client/wire/canonical-json.ts'

const secret = new Uint8Array(32).fill(7)
const content = {
  operation: 'createTranscription',
  contentSha256: 'a'.repeat(64),
  options: { b: 1, a: 'x' },
  occurrence: 0,
}

describe('keys of calls', () => {
  it('a key depends on secret, operation, content, options and occurrence, and on nothing else', () => {
    const key = deriveCallKey(secret, content)
    expect(deriveCallKey(secret, { ...content, options: { a: 'x', b: 1 } })).toBe(key)
    const others = [
      deriveCallKey(new Uint8Array(32), content),
      deriveCallKey(secret, { ...content, operation: 'createSpeech' }),
      deriveCallKey(secret, { ...content, contentSha256: 'b'.repeat(64) }),
      deriveCallKey(secret, { ...content, options: { a: 'x' } }),
      deriveCallKey(secret, { ...content, occurrence: 1 }),
    ]
    expect(new Set([key, ...others]).size).toBe(6)
    expect(key).toMatch(/^[\w-]{43}$/)
  })

  it('canonical JSON has the same value and does not depend on the order of names', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        const reversed = Object.fromEntries(Object.entries(value).toReversed())
        expect(canonicalJson(reversed)).toBe(canonicalJson(value))
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })

  it('forms that differ only in their boundary have the same digest', async () => {
    expect(await digestOf('one')).toBe(await digestOf('one'))
    expect(await digestOf('one')).not.toBe(await digestOf('two'))
  })
})

async function digestOf(text: string): Promise<string> {
  const form = new FormData()
  form.append('file', new Blob([text]), 'a.mp3')
  const request = new Request('http://localhost', { method: 'POST', body: form })
  return bodyDigest(new Uint8Array(await request.clone().arrayBuffer()), request.headers.get('content-type'))
}
