import { createCipheriv, createDecipheriv, randomBytes, randomUUID } from 'node:crypto'

/** Staged uploads are unreadable this long after upload, whatever happened (specification, Limits). */
export const STAGED_UPLOAD_LIFETIME_SECONDS = 3600

const ALGORITHM = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Where an encrypted upload lies and the key that opens it. The key lives in PostgreSQL only, the bytes outside only. */
export interface StagedUpload {
  readonly id: string
  readonly objectKey: string
  readonly dataKey: Uint8Array
}

/** A new upload with a data key of its own. */
export function newStagedUpload(): StagedUpload {
  const id = randomUUID()
  return { id, objectKey: `staged/${id}`, dataKey: randomBytes(KEY_BYTES) }
}

/** AES-256-GCM: nonce, ciphertext, tag. The object key is authenticated with it, so objects cannot be swapped. */
export function encryptUpload(upload: StagedUpload, plaintext: Uint8Array): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(ALGORITHM, upload.dataKey, nonce).setAAD(Buffer.from(upload.objectKey))
  return Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
}

/** Throws when the bytes were changed, cut, or belong to another upload. */
export function decryptUpload(upload: StagedUpload, sealed: Uint8Array): Uint8Array {
  const nonce = sealed.subarray(0, NONCE_BYTES)
  const decipher = createDecipheriv(ALGORITHM, upload.dataKey, nonce, { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(upload.objectKey))
    .setAuthTag(sealed.subarray(-TAG_BYTES))
  return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
}
