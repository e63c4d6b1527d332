import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decryptUpload, encryptUpload, newStagedUpload } from '#shared/media/staged-upload.ts'

describe('a staged upload', () => {
  it('a staged upload of any bytes, including none, decrypts with its own key', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 5000 }), (bytes) => {
        const upload = newStagedUpload()
        expect(Buffer.from(decryptUpload(upload, encryptUpload(upload, bytes))).equals(Buffer.from(bytes))).toBe(true)
      }),
    )
  })

  it('a staged upload hides its plaintext and differs at each encryption [spec T12]', () => {
    const upload = newStagedUpload()
    const plain = Buffer.from('canary '.repeat(100))
    const encrypted = Buffer.from(encryptUpload(upload, plain))
    expect(encrypted.includes('canary')).toBe(false)
    expect(encrypted.equals(encryptUpload(upload, plain))).toBe(false)
  })

  it('a staged upload does not decrypt after a change of any byte', () => {
    const upload = newStagedUpload()
    const encrypted = encryptUpload(upload, Buffer.from('twenty bytes of audio'))
    for (let index = 0; index < encrypted.length; index += 1) {
      const changed = Uint8Array.from(encrypted)
      changed[index] = (changed[index] ?? 0) ^ 1
      expect(() => decryptUpload(upload, changed)).toThrow(Error)
    }
  })

  it('a staged upload does not decrypt when truncated or extended', () => {
    const upload = newStagedUpload()
    const encrypted = encryptUpload(upload, Buffer.from('twenty bytes of audio'))
    for (let length = 0; length < encrypted.length; length += 1)
      expect(() => decryptUpload(upload, encrypted.subarray(0, length))).toThrow(Error)
    expect(() => decryptUpload(upload, Buffer.concat([encrypted, Buffer.of(0)]))).toThrow(Error)
  })

  it('a staged upload does not decrypt with another key', () => {
    const upload = newStagedUpload()
    const encrypted = encryptUpload(upload, Buffer.from('audio'))
    expect(() => decryptUpload({ ...upload, dataKey: randomBytes(32) }, encrypted)).toThrow(Error)
  })

  it('a staged upload does not decrypt under another object key, even with the same data key', () => {
    const upload = newStagedUpload()
    const encrypted = encryptUpload(upload, Buffer.from('audio'))
    expect(() => decryptUpload({ ...upload, objectKey: newStagedUpload().objectKey }, encrypted)).toThrow(Error)
  })

  it('a staged upload has a unique id, object key and data key', () => {
    const uploads = Array.from({ length: 100 }, newStagedUpload)
    for (const field of ['id', 'objectKey'] as const) expect(new Set(uploads.map((one) => one[field])).size).toBe(100)
    expect(new Set(uploads.map(({ dataKey }) => Buffer.from(dataKey).toString('hex'))).size).toBe(100)
    expect(uploads.every(({ dataKey }) => dataKey.length === 32)).toBe(true)
  })
})
