import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import {
  type ChallengeClaims,
  isChallengeForKey,
  openChallengeToken,
  sealChallengeToken,
} from '#shared/payment/challenge-token.ts'

const SECRET = 'a secret of the tests'
const SECRETS = [SECRET] as const
const claims: ChallengeClaims = {
  idempotencyKey: 'key-canary',
  requestDigest: 'd'.repeat(64),
  quotedMaximum: atomicAmount(5034n),
  expiresAt: new Date('2026-01-02T03:04:05.678Z'),
}
const token = sealChallengeToken(claims, SECRETS)

function jsonOf(sealed: string): string {
  return Buffer.from(sealed.split('.')[0] ?? '', 'base64url').toString()
}

describe('a challenge token', () => {
  it('a challenge token opens with its claims for its key and request', () => {
    expect(openChallengeToken(token, claims, SECRETS)).toEqual({
      outcome: 'genuine',
      quotedMaximum: 5034n,
      matchesRequest: true,
      expiresAt: new Date('2026-01-02T03:04:05Z'),
      tokenSha256: sha256Hex(token),
    })
  })

  it('a challenge token opens for any key, digest and amount', () => {
    const amount = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })
    fc.assert(
      fc.property(fc.string(), fc.string(), amount, (idempotencyKey, requestDigest, maximum) => {
        const issued = { ...claims, idempotencyKey, requestDigest, quotedMaximum: atomicAmount(maximum) }
        expect(openChallengeToken(sealChallengeToken(issued, SECRETS), issued, SECRETS)).toMatchObject({
          quotedMaximum: maximum,
          matchesRequest: true,
        })
      }),
    )
  })

  it('every issued challenge token differs by 128 random bits', () => {
    const tokens = new Set(Array.from({ length: 100 }, () => sealChallengeToken(claims, SECRETS)))
    expect(tokens.size).toBe(100)
    for (const issued of tokens) {
      const [, random = ''] = /^\{"k":"([^"]+)"/.exec(jsonOf(issued)) ?? []
      expect(Buffer.from(random, 'base64url')).toHaveLength(16)
    }
  })

  it('version 0.1.0, which knows four members and two parts, opens a challenge token of this version', () => {
    const [body = '', tag, ...others] = token.split('.')
    expect(others).toEqual([])
    expect(tag).toBe(createHmac('sha256', SECRET).update('farebox challenge\0').update(body).digest('base64url'))
    expect(JSON.parse(jsonOf(token))).toEqual({
      k: sha256Hex(claims.idempotencyKey),
      d: claims.requestDigest,
      m: '5034',
      e: 1_767_323_045,
    })
  })

  it('a challenge token of the previous version, without a random part, still opens and identifies no caller', () => {
    const body = Buffer.from(JSON.stringify(JSON.parse(jsonOf(token)))).toString('base64url')
    const tag = createHmac('sha256', SECRET).update('farebox challenge\0').update(body).digest('base64url')
    expect(openChallengeToken(`${body}.${tag}`, claims, SECRETS)).toMatchObject({
      outcome: 'genuine',
      matchesRequest: true,
      tokenSha256: null,
    })
  })

  it('a challenge token counts as forged after a change, removal or insertion of any character', () => {
    for (let index = 0; index < token.length; index += 1) {
      const changed = token[index] === 'A' ? 'B' : 'A'
      const variants = [
        token.slice(0, index) + changed + token.slice(index + 1),
        token.slice(0, index) + token.slice(index + 1),
        `${token.slice(0, index)}A${token.slice(index)}`,
      ]
      for (const variant of variants.filter((other) => other !== token))
        expect([variant, openChallengeToken(variant, claims, SECRETS)]).toEqual([variant, { outcome: 'forged' }])
    }
  })

  it('a challenge token counts as forged in another encoding of the same bytes', () => {
    for (const variant of [`${token}=`, `${token} `, token.toUpperCase(), `.${token}`, `${token}.`, `${token}.x`])
      expect(openChallengeToken(variant, claims, SECRETS)).toEqual({ outcome: 'forged' })
  })

  it('a challenge token counts as forged under another secret', () => {
    expect(openChallengeToken(token, claims, [`${SECRET}.`])).toEqual({ outcome: 'forged' })
  })

  it('a challenge token opens under any listed secret, and is issued under the first one', () => {
    expect(openChallengeToken(token, claims, ['the next secret', SECRET])).toMatchObject({ outcome: 'genuine' })
    const next = sealChallengeToken(claims, ['the next secret', SECRET])
    expect(openChallengeToken(next, claims, SECRETS)).toEqual({ outcome: 'forged' })
    expect(openChallengeToken(next, claims, [SECRET, 'the next secret'])).toMatchObject({ outcome: 'genuine' })
    expect(isChallengeForKey(next, claims.idempotencyKey, [SECRET, 'the next secret'])).toBe(true)
    expect(isChallengeForKey(next, claims.idempotencyKey, SECRETS)).toBe(false)
  })

  it('a challenge token does not match another key or another request', () => {
    const others = [
      { ...claims, idempotencyKey: 'key-canary2' },
      { ...claims, requestDigest: 'e'.repeat(64) },
    ]
    for (const other of others)
      expect(openChallengeToken(token, other, SECRETS)).toMatchObject({ outcome: 'genuine', matchesRequest: false })
  })

  it('a challenge token does not contain the idempotency key, which is a capability', () => {
    expect(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()).not.toContain('canary')
  })

  it('any other input counts as a forged challenge token, without throwing', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        expect(openChallengeToken(value, claims, SECRETS)).toEqual({ outcome: 'forged' })
      }),
    )
    fc.assert(
      fc.property(fc.base64String(), fc.base64String(), (body, tag) => {
        expect(openChallengeToken(`${body}.${tag}`, claims, SECRETS)).toEqual({ outcome: 'forged' })
      }),
    )
  })
})
