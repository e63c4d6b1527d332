import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { type AtomicAmount, parseAtomicAmount } from '#shared/money/atomic-amount.ts'

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
      /**
       * Identifies this token, for storage: the token itself is a capability. `null` for one of the previous version,
       * which has no random part, so that anyone with key and request could obtain it.
       */
      tokenSha256: string | null
    }
  | { outcome: 'forged' }

/** Parts of a token with a random one; those of the previous version have two. */
const RANDOM_PARTS = 3

/** Random bytes of each token, so that nobody can derive or request the token of another challenge. */
const RANDOM_BYTES = 16

/** Creates a token of the claims with a random part, authenticated together with HMAC-SHA-256 under `secret`. */
export function sealChallengeToken(claims: ChallengeClaims, secret: string): string {
  const body = Buffer.from(
    JSON.stringify({
      k: sha256Hex(claims.idempotencyKey),
      d: claims.requestDigest,
      m: claims.quotedMaximum.toString(),
      e: Math.floor(claims.expiresAt.getTime() / 1000),
    }),
  ).toString('base64url')
  const signed = `${body}.${randomBytes(RANDOM_BYTES).toString('base64url')}`
  return `${signed}.${mac(signed, secret)}`
}

/** Opens a token and checks whether it was issued for this key and request. The caller checks its expiry. */
export function openChallengeToken(
  token: unknown,
  request: { idempotencyKey: string; requestDigest: string },
  secret: string,
): OpenedChallenge {
  const claims = readClaims(token, secret)
  const quotedMaximum = claims && parseAtomicAmount(claims.m)
  if (!claims || quotedMaximum === null || typeof token !== 'string') return { outcome: 'forged' }
  return {
    outcome: 'genuine',
    quotedMaximum,
    matchesRequest: claims.k === sha256Hex(request.idempotencyKey) && claims.d === request.requestDigest,
    expiresAt: new Date(claims.e * 1000),
    tokenSha256: token.split('.').length === RANDOM_PARTS ? sha256Hex(token) : null,
  }
}

/** Returns whether a token was issued for this key, for any request and at any time. */
export function isChallengeForKey(token: unknown, idempotencyKey: string, secret: string): boolean {
  return readClaims(token, secret)?.k === sha256Hex(idempotencyKey)
}

function readClaims(token: unknown, secret: string) {
  if (typeof token !== 'string') return null
  const parts = token.split('.')
  const [body = '', tag = ''] = [parts[0], parts.at(-1)]
  if (parts.length !== RANDOM_PARTS && parts.length !== RANDOM_PARTS - 1) return null
  const [given, expected] = [Buffer.from(tag), Buffer.from(mac(parts.slice(0, -1).join('.'), secret))]
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null
  // Only JSON of this service has a valid tag, so parsing cannot fail on a client's input.
  return claimsSchema.parse(JSON.parse(Buffer.from(body, 'base64url').toString('utf8')))
}

function mac(signed: string, secret: string): string {
  return createHmac('sha256', secret).update('farebox challenge\0').update(signed).digest('base64url')
}
