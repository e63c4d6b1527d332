import { describe, expect, it } from 'vitest'
import { readChallenge } from '../../../../client/payment/challenge.ts'
import { ChallengeRefused, checkChallenge } from '../../../../client/payment/check-challenge.ts'
import { challengeHeader, type OfferedTerms, URL_OF_CALL } from './scripted-service.ts'

const terms = {
  network: 'eip155:8453',
  asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
  payTo: `0x${'1'.repeat(40)}`,
}
const check = (offered: OfferedTerms) =>
  checkChallenge(readChallenge(challengeHeader(offered)), {
    terms,
    url: URL_OF_CALL,
    quotedMaximum: 5034n,
    now: Date.now(),
  })

describe('checks of a challenge', () => {
  it('a challenge on the pinned terms, at most as high as the quote, is accepted in any letter case', () => {
    expect(() => check({ asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913' })).not.toThrow()
    expect(() => check({ amount: '5033' })).not.toThrow()
  })

  it.each<[string, OfferedTerms]>([
    ['payTo', { payTo: `0x${'3'.repeat(40)}` }],
    ['asset', { asset: `0x${'3'.repeat(40)}` }],
    ['network', { network: 'eip155:1' }],
    ['maximum', { amount: '5035' }],
    ['resource', { resource: 'http://localhost:4020/v1/messages' }],
    ['facilitator', { facilitator: 'nobody' }],
    ['timeout', { maxTimeoutSeconds: 86_400 }],
  ])('another %s is refused, with what differed', (term, offered) => {
    expect(() => check(offered)).toThrow(ChallengeRefused)
    expect(() => check(offered)).toThrow(/instead of .* Nothing was charged\. Nothing was signed\./)
    expect(() => check(offered)).toThrow(
      expect.objectContaining({ differences: expect.arrayContaining([expect.objectContaining({ term })]) }),
    )
  })

  it('a challenge that expired is refused with the advice to check the clock', () => {
    expect(() => check({ expiresAt: '2020-01-01T00:00:00.000Z' })).toThrow(/Check this machine’s clock/)
  })

  it.each([
    ['no header', null],
    ['no JSON', Buffer.from('{').toString('base64')],
    ['another version', Buffer.from('{"x402Version":1,"accepts":[]}').toString('base64')],
    ['another scheme', challengeHeader({ scheme: 'exact' })],
    ['a negative amount', challengeHeader({ amount: '-1' })],
    ['a fraction', challengeHeader({ amount: '1.5' })],
    ['no time to settle', challengeHeader({ maxTimeoutSeconds: 0 })],
  ])('a payment request with %s is unreadable', (_, header) => {
    expect(() => readChallenge(header)).toThrow(expect.objectContaining({ code: 'challenge_unreadable' }))
  })
})
