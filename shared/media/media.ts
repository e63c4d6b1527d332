import { randomBytes } from 'node:crypto'
import { sha256Hex } from '#shared/digests/canonical-json.ts'

/** A capability of 256 random bits. */
const TOKEN_BYTES = 32

/** Result media as it is recorded: everything but the bytes, which lie in the object store, and the token's plain text. */
export interface Media {
  readonly objectKey: string
  readonly tokenSha256: string
  readonly contentType: string
  readonly sha256: string
  readonly bytes: number
  readonly expiresAt: Date
}

/** Media that is found by its token and may be served now. */
export type ServedMedia = Pick<Media, 'objectKey' | 'contentType' | 'sha256' | 'bytes' | 'expiresAt'>

/** A fresh capability URL's token. It appears in the released result and nowhere else. */
export function newMediaToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url')
}

/** What is stored and looked up in place of a token. */
export function hashMediaToken(token: string): string {
  return sha256Hex(token)
}

/** Where the media with `token` is served. */
export function mediaUrl(publicBaseUrl: string, token: string): string {
  return new URL(`/media/${token}`, publicBaseUrl).href
}
