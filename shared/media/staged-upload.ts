import { createCipheriv, createDecipheriv, type DecipherGCM, randomBytes, randomUUID } from 'node:crypto'

/** A staged upload becomes unreadable this long after the upload, even if its job is unfinished. */
export const STAGED_UPLOAD_LIFETIME_SECONDS = 3600

const ALGORITHM = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** The place of an encrypted upload and its key. The key is stored only in PostgreSQL, the bytes only outside it. */
export interface StagedUpload {
  readonly id: string
  readonly objectKey: string
  readonly dataKey: Uint8Array
}

/** Creates an upload with a new data key. */
export function newStagedUpload(): StagedUpload {
  const id = randomUUID()
  return { id, objectKey: `staged/${id}`, dataKey: randomBytes(KEY_BYTES) }
}

/**
 * Encrypts with AES-256-GCM into nonce, ciphertext and tag. The object key is authenticated too, so objects cannot be
 * swapped.
 */
export function encryptUpload(upload: StagedUpload, plaintext: Uint8Array): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(ALGORITHM, upload.dataKey, nonce).setAAD(Buffer.from(upload.objectKey))
  return Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
}

/** An encrypted upload as its store returns it. */
interface EncryptedUpload {
  readonly bytes: number
  readonly body: AsyncIterable<Uint8Array>
}

/**
 * Decrypts an upload as it arrives, so that the encrypted bytes are never in memory as a whole. Returns `null` when
 * they were changed, belong to another upload or are more than `maximumBytes` of plaintext; rejects when they do not
 * arrive completely.
 */
export async function decryptUpload(
  upload: StagedUpload,
  { bytes, body }: EncryptedUpload,
  maximumBytes: number,
): Promise<Uint8Array | null> {
  const length = bytes - NONCE_BYTES - TAG_BYTES
  if (length < 0 || length > maximumBytes) return null
  const nonce = Buffer.alloc(NONCE_BYTES)
  const tag = Buffer.alloc(TAG_BYTES)
  const plaintext = Buffer.allocUnsafeSlow(length)
  let decipher: DecipherGCM | null = null
  let arrived = 0
  for await (const chunk of body) {
    const part = (from: number, to: number) =>
      chunk.subarray(Math.max(0, from - arrived), Math.max(0, Math.min(chunk.length, to - arrived)))
    nonce.set(part(0, NONCE_BYTES), Math.min(arrived, NONCE_BYTES))
    const ciphertext = part(NONCE_BYTES, NONCE_BYTES + length)
    if (ciphertext.length > 0) {
      decipher ??= decipherOf(upload, nonce)
      plaintext.set(decipher.update(ciphertext), Math.max(0, arrived - NONCE_BYTES))
    }
    tag.set(part(NONCE_BYTES + length, bytes), Math.min(Math.max(0, arrived - NONCE_BYTES - length), TAG_BYTES))
    arrived += chunk.length
  }
  if (arrived !== bytes) throw new Error(`an upload of ${bytes} bytes ended after ${arrived}`)
  try {
    ;(decipher ?? decipherOf(upload, nonce)).setAuthTag(tag).final()
    return plaintext
  } catch {
    // Authentication failed; the error says nothing more.
    return null
  }
}

function decipherOf(upload: StagedUpload, nonce: Uint8Array): DecipherGCM {
  return createDecipheriv(ALGORITHM, upload.dataKey, nonce, { authTagLength: TAG_BYTES }).setAAD(
    Buffer.from(upload.objectKey),
  )
}
