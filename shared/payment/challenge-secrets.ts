import { timingSafeEqual } from 'node:crypto'

/** Authenticate challenges: issued under the first one, accepted under all while a secret is replaced. */
export type ChallengeSecrets = readonly [string, ...string[]]

/** Returns whether `given` is the tag under any of the secrets. Compares in constant time. */
export function isTagUnderAny(given: string, secrets: ChallengeSecrets, tagUnder: (secret: string) => string): boolean {
  const bytes = Buffer.from(given)
  return secrets.some((secret) => {
    const expected = Buffer.from(tagUnder(secret))
    return bytes.length === expected.length && timingSafeEqual(bytes, expected)
  })
}
