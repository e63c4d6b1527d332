import { createHmac } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { type ChallengeSecrets, isTagUnderAny } from '#shared/payment/challenge-secrets.ts'

/**
 * The header by which the operator's preflight has a probe held as long as a paid call may be, to see whether everything in
 * front of the API waits as long. Only holders of CHALLENGE_SECRET can make it: anyone else would take places for nothing.
 */
export const HELD_PROBE_HEADER = 'x-preflight-hold'

const LIFETIME_SECONDS = 60

/** Returns the value of the header, which is good for a minute. */
export function sealHeldProbe([newest]: ChallengeSecrets, now: Date): string {
  const issuedAt = Math.floor(now.getTime() / 1000).toString()
  return `${issuedAt}.${tagOf(issuedAt, newest)}`
}

/** Returns whether a probe is to be held. */
export function isHeldProbe(headers: IncomingHttpHeaders, secrets: ChallengeSecrets, now: Date): boolean {
  const { [HELD_PROBE_HEADER]: value } = headers
  if (typeof value !== 'string') return false
  const [issuedAt = '', tag = ''] = value.split('.')
  const ageSeconds = Math.abs(now.getTime() / 1000 - Number(issuedAt))
  return ageSeconds <= LIFETIME_SECONDS && isTagUnderAny(tag, secrets, (secret) => tagOf(issuedAt, secret))
}

function tagOf(issuedAt: string, secret: string): string {
  return createHmac('sha256', secret).update('farebox held probe\0').update(issuedAt).digest('base64url')
}
