import { createHmac, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { type AtomicAmount, parseAtomicAmount } from '#shared/money/atomic-amount.ts'
import { type ChallengeSecrets, isTagUnderAny } from './challenge-secrets.ts'

/**
 * The token in `accepts[0].extra.challenge` that a client echoes. It binds idempotency key, effective request and
 * maximum, so that a payment signed for one request can never pay for another. Each token is different: it is the part
 * of a payment that never appears on chain, so only the caller who was accepted with it can present it again.
 */
export interface ChallengeClaims {
  readonly idempotencyKey: string
  readonly requestDigest: string
  readonly quotedMaximum: AtomicAmount
  readonly expiresAt: Date
}

/** Contains only a digest of the key: keys are capabilities, and challenges may be shared. */
const claimsSchema = z.strictObject({
  /** Random, so that nobody can derive or request the token of another challenge. */
  r: z.string(),
  k: z.string(),
  d: z.string(),
  m: z.string(),
  e: z.int(),
})

export type OpenedChallenge =
  | {
      outcome: 'genuine'
      quotedMaximum: AtomicAmount
      matchesRequest: boolean
      expiresAt: Date
      /** Identifies this token, for storage: the token itself is a capability. */
      tokenSha256: string
    }
  | { outcome: 'forged' }

export const CHALLENGE_RANDOM_BYTES = 16

/**
 * Creates a token of the claims, authenticated with HMAC-SHA-256 under the first secret. `random` is
 * `CHALLENGE_RANDOM_BYTES` long, and never used again.
 */
export function sealChallengeToken(
  claims: ChallengeClaims,
  [newest]: ChallengeSecrets,
  random: Buffer = randomBytes(CHALLENGE_RANDOM_BYTES),
): string {
  const json = JSON.stringify({
    r: random.toString('base64url'),
    k: sha256Hex(claims.idempotencyKey),
    d: claims.requestDigest,
    m: claims.quotedMaximum.toString(),
    e: Math.floor(claims.expiresAt.getTime() / 1000),
  })
  const body = Buffer.from(json).toString('base64url')
  return `${body}.${mac(body, newest)}`
}

/** Opens a token and checks whether it was issued for this key and request. The caller checks its expiry. */
export function openChallengeToken(
  token: unknown,
  request: { idempotencyKey: string; requestDigest: string },
  secrets: ChallengeSecrets,
): OpenedChallenge {
  const json = readJson(token, secrets)
  const claims = json === null ? null : parseClaims(json)
  const quotedMaximum = claims && parseAtomicAmount(claims.m)
  if (!claims || quotedMaximum === null) return { outcome: 'forged' }
  return {
    outcome: 'genuine',
    quotedMaximum,
    matchesRequest: claims.k === sha256Hex(request.idempotencyKey) && claims.d === request.requestDigest,
    expiresAt: new Date(claims.e * 1000),
    tokenSha256: sha256Hex(String(token)),
  }
}

/** Returns whether a token was issued for this key, for any request and at any time. */
export function isChallengeForKey(token: unknown, idempotencyKey: string, secrets: ChallengeSecrets): boolean {
  const json = readJson(token, secrets)
  return json !== null && parseClaims(json).k === sha256Hex(idempotencyKey)
}

/** Returns the authenticated JSON of a token, `null` for any other value. */
function readJson(token: unknown, secrets: ChallengeSecrets): string | null {
  if (typeof token !== 'string') return null
  const [body, tag, ...others] = token.split('.')
  if (!body || !tag || others.length > 0) return null
  if (!isTagUnderAny(tag, secrets, (secret) => mac(body, secret))) return null
  return Buffer.from(body, 'base64url').toString('utf8')
}

/** Parses authenticated claims; only JSON of this service is authentic, so parsing cannot fail on a client's input. */
function parseClaims(json: string): z.infer<typeof claimsSchema> {
  return claimsSchema.parse(JSON.parse(json))
}

function mac(signed: string, secret: string): string {
  return createHmac('sha256', secret).update(`farebox challenge\0${signed}`).digest('base64url')
}
