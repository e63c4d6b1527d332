import { randomBytes } from 'node:crypto'
import { sha256Hex } from '#shared/digests/canonical-json.ts'

/** 256 random bits. */
const TOKEN_BYTES = 32

/** Recorded result media: everything but its bytes, which are in the object store, and the token's plaintext. */
export interface Media {
  readonly objectKey: string
  readonly tokenSha256: string
  readonly contentType: string
  readonly sha256: string
  readonly bytes: number
  readonly expiresAt: Date
}

/** Media that was found by its token and can be served now. */
export type ServedMedia = Pick<Media, 'objectKey' | 'contentType' | 'sha256' | 'bytes' | 'expiresAt'>

/** Creates the token of a capability URL. It appears only in the released result. */
export function newMediaToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url')
}

/** Returns the hash that is stored and looked up instead of the token. */
export function hashMediaToken(token: string): string {
  return sha256Hex(token)
}

/** Returns the capability URL of the media with `token`. */
export function mediaUrl(publicBaseUrl: string, token: string): string {
  return new URL(`/media/${token}`, publicBaseUrl).href
}
