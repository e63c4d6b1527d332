import { createCipheriv, createDecipheriv, randomBytes, randomUUID } from 'node:crypto'

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

/** Decrypts an upload. Throws when the bytes were changed, truncated or belong to another upload. */
export function decryptUpload(upload: StagedUpload, encrypted: Uint8Array): Uint8Array {
  const nonce = encrypted.subarray(0, NONCE_BYTES)
  const decipher = createDecipheriv(ALGORITHM, upload.dataKey, nonce, { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(upload.objectKey))
    .setAuthTag(encrypted.subarray(-TAG_BYTES))
  return Buffer.concat([decipher.update(encrypted.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
}
