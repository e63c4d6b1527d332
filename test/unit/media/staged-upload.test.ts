import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decryptUpload, encryptUpload, newStagedUpload } from '#shared/media/staged-upload.ts'

describe('a staged upload', () => {
  it('of any bytes, also none, is opened with its own key', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 5000 }), (bytes) => {
        const upload = newStagedUpload()
        expect(Buffer.from(decryptUpload(upload, encryptUpload(upload, bytes))).equals(Buffer.from(bytes))).toBe(true)
      }),
    )
  })

  it('shows nothing of its bytes, and is different each time', () => {
    const upload = newStagedUpload()
    const plain = Buffer.from('canary '.repeat(100))
    const sealed = Buffer.from(encryptUpload(upload, plain))
    expect(sealed.includes('canary')).toBe(false)
    expect(sealed.equals(encryptUpload(upload, plain))).toBe(false)
  })

  it('with any one byte changed does not open', () => {
    const upload = newStagedUpload()
    const sealed = encryptUpload(upload, Buffer.from('twenty bytes of audio'))
    for (let index = 0; index < sealed.length; index += 1) {
      const changed = Uint8Array.from(sealed)
      changed[index] = (changed[index] ?? 0) ^ 1
      expect(() => decryptUpload(upload, changed)).toThrow(Error)
    }
  })

  it('that was cut or grew does not open', () => {
    const upload = newStagedUpload()
    const sealed = encryptUpload(upload, Buffer.from('twenty bytes of audio'))
    for (let length = 0; length < sealed.length; length += 1)
      expect(() => decryptUpload(upload, sealed.subarray(0, length))).toThrow(Error)
    expect(() => decryptUpload(upload, Buffer.concat([sealed, Buffer.of(0)]))).toThrow(Error)
  })

  it('does not open with another key', () => {
    const upload = newStagedUpload()
    const sealed = encryptUpload(upload, Buffer.from('audio'))
    expect(() => decryptUpload({ ...upload, dataKey: randomBytes(32) }, sealed)).toThrow(Error)
  })

  it('does not open in another’s place, even under the same key', () => {
    const upload = newStagedUpload()
    const sealed = encryptUpload(upload, Buffer.from('audio'))
    expect(() => decryptUpload({ ...upload, objectKey: newStagedUpload().objectKey }, sealed)).toThrow(Error)
  })

  it('has an id, an object key and a data key that no other has', () => {
    const uploads = Array.from({ length: 100 }, newStagedUpload)
    for (const field of ['id', 'objectKey'] as const) expect(new Set(uploads.map((one) => one[field])).size).toBe(100)
    expect(new Set(uploads.map(({ dataKey }) => Buffer.from(dataKey).toString('hex'))).size).toBe(100)
    expect(uploads.every(({ dataKey }) => dataKey.length === 32)).toBe(true)
  })
})
