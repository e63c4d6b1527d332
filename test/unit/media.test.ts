import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decryptUpload, encryptUpload, newStagedUpload, type StagedUpload } from '#shared/media/staged-upload.ts'

/** Longer than any upload of these tests. */
const LIMIT = 10_000
/** Decrypts bytes that arrive in pieces of the given length. */
function decrypt(upload: StagedUpload, encrypted: Uint8Array, pieceBytes = 1000, limit = LIMIT) {
  const pieces = Array.from({ length: Math.ceil(encrypted.length / pieceBytes) }, (_, index) =>
    encrypted.subarray(index * pieceBytes, (index + 1) * pieceBytes),
  )
  return decryptUpload(upload, { bytes: encrypted.length, body: Readable.from(pieces) }, limit)
}

describe('a staged upload', () => {
  it('a staged upload of any bytes, including none, decrypts with its own key in whatever pieces it arrives', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), fc.integer({ min: 1, max: 300 }), async (bytes, piece) => {
        const upload = newStagedUpload()
        expect(await decrypt(upload, encryptUpload(upload, bytes), piece)).toEqual(Buffer.from(bytes))
      }),
    )
  })

  it('a staged upload that does not arrive completely can be read again, unlike a damaged one', async () => {
    const upload = newStagedUpload()
    const encrypted = encryptUpload(upload, Buffer.from('twenty bytes of audio'))
    for (const body of [Readable.from([encrypted.subarray(0, 30)]), Readable.from([])])
      await expect(decryptUpload(upload, { bytes: encrypted.length, body }, LIMIT)).rejects.toThrow('ended after')
  })

  it('a staged upload is not read when it is larger than its memory', async () => {
    const upload = newStagedUpload()
    const encrypted = encryptUpload(upload, Buffer.from('twenty bytes of audio'))
    expect(await decrypt(upload, encrypted, 1000, 21)).not.toBeNull()
    expect(await decrypt(upload, encrypted, 1000, 20)).toBeNull()
  })

  it('a staged upload hides its plaintext and differs at each encryption [spec T12]', () => {
    const upload = newStagedUpload()
    const plain = Buffer.from('canary '.repeat(100))
    const encrypted = Buffer.from(encryptUpload(upload, plain))
    expect(encrypted.includes('canary')).toBe(false)
    expect(encrypted.equals(encryptUpload(upload, plain))).toBe(false)
  })

  it('a staged upload does not decrypt after a change of any byte', async () => {
    const upload = newStagedUpload()
    const encrypted = encryptUpload(upload, Buffer.from('twenty bytes of audio'))
    for (let index = 0; index < encrypted.length; index += 1) {
      const changed = Uint8Array.from(encrypted)
      changed[index] = (changed[index] ?? 0) ^ 1
      expect(await decrypt(upload, changed)).toBeNull()
    }
  })

  it('a staged upload does not decrypt when truncated or extended', async () => {
    const upload = newStagedUpload()
    const encrypted = encryptUpload(upload, Buffer.from('twenty bytes of audio'))
    for (let length = 0; length < encrypted.length; length += 1)
      expect(await decrypt(upload, encrypted.subarray(0, length))).toBeNull()
    expect(await decrypt(upload, Buffer.concat([encrypted, Buffer.of(0)]))).toBeNull()
  })

  it('a staged upload does not decrypt with another key', async () => {
    const upload = newStagedUpload()
    const encrypted = encryptUpload(upload, Buffer.from('audio'))
    expect(await decrypt({ ...upload, dataKey: randomBytes(32) }, encrypted)).toBeNull()
  })

  it('a staged upload does not decrypt under another object key, even with the same data key', async () => {
    const upload = newStagedUpload()
    const encrypted = encryptUpload(upload, Buffer.from('audio'))
    expect(await decrypt({ ...upload, objectKey: newStagedUpload().objectKey }, encrypted)).toBeNull()
  })

  it('a staged upload has a unique id, object key and data key', () => {
    const uploads = Array.from({ length: 100 }, newStagedUpload)
    for (const field of ['id', 'objectKey'] as const) expect(new Set(uploads.map((one) => one[field])).size).toBe(100)
    expect(new Set(uploads.map(({ dataKey }) => Buffer.from(dataKey).toString('hex'))).size).toBe(100)
    expect(uploads.every(({ dataKey }) => dataKey.length === 32)).toBe(true)
  })
})
