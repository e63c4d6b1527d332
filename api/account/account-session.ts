import { createHmac } from 'node:crypto'
import { type ChallengeSecrets, isTagUnderAny } from '#shared/payment/challenge-secrets.ts'

/** Long enough to read a hundred thousand receipts page by page, short enough for a token that leaks. */
const LIFETIME_MS = 10 * 60 * 1000

/** Bound to the origin, like the challenge that it replaces. */
interface SessionSettings {
  readonly challengeSecrets: ChallengeSecrets
  readonly publicBaseUrl: string
  readonly now: () => Date
}

/**
 * Creates a token with which a wallet that has signed in reads its account for some minutes more. It is not stored: it
 * contains address and expiry, authenticated with HMAC-SHA-256.
 */
export function createSession(settings: SessionSettings, address: string): string {
  const claims = `${address}.${settings.now().getTime() + LIFETIME_MS}`
  const [newest] = settings.challengeSecrets
  return `${claims}.${mac(settings, newest, claims)}`
}

/** Returns the wallet of a token, or `null` for one that is forged or has expired. */
export function openSession(settings: SessionSettings, token: string): `0x${string}` | null {
  const [address = '', expiresAt = '', tag = '', ...others] = token.split('.')
  const tagUnder = (secret: string) => mac(settings, secret, `${address}.${expiresAt}`)
  if (others.length > 0 || !isTagUnderAny(tag, settings.challengeSecrets, tagUnder)) return null
  return Number(expiresAt) > settings.now().getTime() ? (address as `0x${string}`) : null
}

function mac({ publicBaseUrl }: SessionSettings, secret: string, claims: string): string {
  return createHmac('sha256', secret)
    .update('farebox account session\0')
    .update(JSON.stringify([new URL(publicBaseUrl).origin, claims]))
    .digest('base64url')
}
