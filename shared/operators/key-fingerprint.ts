import { createHash } from 'node:crypto'

/** Enough to tell the few secrets of one setting apart. */
const FINGERPRINT_DIGITS = 12

/** Identifies a secret in reports and commands. Reveals nothing of a random one. */
export function keyFingerprint(secret: string): string {
  return createHash('sha256').update('farebox key\0').update(secret).digest('hex').slice(0, FINGERPRINT_DIGITS)
}

/** Identifies one of the secrets that have an id, as `id:fingerprint`. */
export function namedFingerprint(id: string, secret: string): string {
  return `${id}:${keyFingerprint(secret)}`
}
