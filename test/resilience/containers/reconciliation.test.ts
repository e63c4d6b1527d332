import { expect, test } from 'vitest'
import type { CallRecord, Ledgers } from '../checker/ledgers.ts'
import { released, sound } from '../checker/sound-ledgers.ts'
import { isSound, madeUpCaller, reconcile } from './reconciliation.ts'

const [call] = sound.clients.calls
/** The ledgers with another record of the only caller, or with further callers. */
const withCalls = (...calls: readonly CallRecord[]): Ledgers => ({ ...sound, clients: { ...sound.clients, calls } })

test('a call that was released, paid for and mined is neither failed, repeated nor lost', () => {
  const result = reconcile(sound)
  expect(result).toEqual({ calls: 1, failed: [], paidAgain: [], unknown: [], lost: [], violations: [] })
  expect(isSound(result)).toBe(true)
})

test('a made-up caller with a result is lost', () => {
  const result = reconcile(withCalls(...sound.clients.calls, madeUpCaller()))
  expect(result.lost).toEqual(['made-up: the ledger has no such call'])
  expect(isSound(result)).toBe(false)
})

test.each<[string, Partial<CallRecord>]>([
  ['gave up', { outcome: 'gave_up', answers: [] }],
  ['was refused', { outcome: 'refused', answers: [{ ...released, status: 409, code: 'conflict' }] }],
  ['never ended', { outcome: null, answers: [] }],
])('a caller who %s has failed, and its payment is lost', (_, change) => {
  const result = reconcile(withCalls({ ...call, ...change } as CallRecord))
  expect(result.failed).toEqual([expect.stringMatching(/^call /)])
  expect(result.lost).toEqual(['call: a payment on the chain without a result'])
  expect(isSound(result)).toBe(false)
})

test('a caller who signed twice was asked for a second payment', () => {
  const result = reconcile(withCalls({ ...call, nonces: ['1', '2'] } as CallRecord))
  expect(result.paidAgain).toEqual(['call released, signed 2 times: 200'])
  expect(isSound(result)).toBe(false)
})

test('a caller who signed again because nobody knows what the vendor did is named apart', () => {
  const unknown = { ...released, status: 503, code: 'provider_outcome_unknown' }
  const result = reconcile(withCalls({ ...call, nonces: ['1', '2'], answers: [unknown, released] } as CallRecord))
  expect([result.paidAgain.length, result.unknown.length]).toEqual([0, 1])
  const thrice = reconcile(withCalls({ ...call, nonces: ['1', '2', '3'], answers: [unknown, released] } as CallRecord))
  expect([thrice.paidAgain.length, thrice.unknown.length]).toEqual([1, 0])
})

test('a result whose payment is not on the chain is reported', () => {
  const result = reconcile({ ...sound, chain: { ...sound.chain, transfers: [], recipientBalance: 0n } })
  expect(result.lost).toEqual(['call: a result without a payment on the chain'])
  expect(isSound(result)).toBe(false)
})

test('a vendor’s call without a caller’s record is not a caller’s', () => {
  const other = { id: '2', arrivedAt: 2000, route: '/v1/images', started: true, status: 200, marker: 'of a command' }
  expect(isSound(reconcile({ ...sound, upstream: [...sound.upstream, other] }))).toBe(true)
})
