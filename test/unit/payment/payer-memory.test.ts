import { describe, expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Challenge } from '../../../api/paid-request/challenge/challenge.ts'
import { createPayerMemory } from '../../../api/paid-request/payment/payer-memory.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'

const challenge = { idempotencyKey: 'key' } as Challenge

function start() {
  let time = 1000
  const payers = createPayerMemory(() => time)
  const payment: Authorization = testAuthorization()
  return {
    payers,
    payment,
    pass: (milliseconds: number) => (time += milliseconds),
    refuse: (code: ErrorCode = 'insufficient_funds') =>
      payers.rememberRefusal(payment, new AppError(code, { message: 'Why.' }), challenge),
  }
}

describe('a payment that the chain refused', () => {
  it('remembers a refused payment for ten seconds, with its reason and the remaining time', () => {
    const { payers, payment, pass, refuse } = start()
    expect(refuse()).toMatchObject({ code: 'insufficient_funds', message: 'Why.', retryAfterSeconds: 10 })
    pass(3500)
    expect(payers.findRefusal(payment)).toMatchObject({
      error: { code: 'insufficient_funds', message: 'Why.', retryAfterSeconds: 7 },
      challenge: { idempotencyKey: 'key' },
    })
    pass(6499)
    expect(payers.findRefusal(payment)).not.toBeNull()
    pass(1)
    expect(payers.findRefusal(payment)).toBeNull()
  })

  it('treats a refused payment as another one after a change of any of its parts', () => {
    const { payers, payment, refuse } = start()
    refuse()
    expect(payers.findRefusal({ ...payment })).not.toBeNull()
    for (const change of [
      { nonce: payment.nonce + 1n },
      { authorizedMaximum: (payment.authorizedMaximum + 1n) as Authorization['authorizedMaximum'] },
      { signature: `${payment.signature}00` as const },
      { payer: '0x9999999999999999999999999999999999999999' as const },
      { deadline: payment.deadline + 1n },
    ])
      expect(payers.findRefusal({ ...payment, ...change })).toBeNull()
  })

  it('forgets a refused payment when another payment of its payer verifies', () => {
    const { payers, payment, pass, refuse } = start()
    refuse()
    pass(1)
    payers.rememberVerified(payment.payer)
    expect(payers.findRefusal(payment)).toBeNull()
  })

  it.each(['payment_expired', 'challenge_expired', 'payment_terms_mismatch', 'settlement_failed'] as const)(
    'is not remembered for %s, which the chain did not decide',
    (code) => {
      const { payers, payment, refuse } = start()
      payers.rememberVerified(payment.payer)
      expect(refuse(code).retryAfterSeconds).toBeUndefined()
      expect(payers.findRefusal(payment)).toBeNull()
      expect(payers.isKnown(payment.payer)).toBe(true)
    },
  )
})

describe('a known payer', () => {
  it('knows a payer for an hour after a payment that verified', () => {
    const { payers, payment, pass } = start()
    expect(payers.isKnown(payment.payer)).toBe(false)
    payers.rememberVerified(payment.payer)
    pass(3_599_999)
    expect(payers.isKnown(payment.payer)).toBe(true)
    pass(1)
    expect(payers.isKnown(payment.payer)).toBe(false)
  })

  it('forgets a payer after a payment that was refused for lack of funds', () => {
    const { payers, payment, refuse } = start()
    payers.rememberVerified(payment.payer)
    refuse()
    expect(payers.isKnown(payment.payer)).toBe(false)
  })

  it('keeps a payer known when a stranger presents their settled payment', () => {
    const { payers, payment, refuse } = start()
    payers.rememberVerified(payment.payer)
    refuse('payment_nonce_used')
    expect(payers.isKnown(payment.payer)).toBe(true)
  })
})
