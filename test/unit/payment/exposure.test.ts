import { describe, expect, it } from 'vitest'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { type Exposure, fitsFunds, mixesPermits, type OpenPayment, openTotal } from '#shared/payment/exposure.ts'
import type { PayerFunds } from '#shared/payment/payer-funds.ts'

function open(nonce: bigint, amount: bigint, changes: Partial<OpenPayment> = {}): OpenPayment {
  return { nonce, amount: atomicAmount(amount), byPermit: false, isSettling: false, ...changes }
}

function exposureOf(payments: readonly OpenPayment[], settledSince = 0n): Exposure {
  return { open: payments, settledSince: atomicAmount(settledSince) }
}

function fundsOf(balance: bigint, allowance: bigint, usedNonces: readonly bigint[] = []): PayerFunds {
  return {
    balance: atomicAmount(balance),
    allowance: atomicAmount(allowance),
    blockNumber: 1n,
    usedNonces: new Set(usedNonces),
  }
}

const PLAIN = { maximum: atomicAmount(10n), needsPermit: false }
const BY_PERMIT = { maximum: atomicAmount(10n), needsPermit: true }

describe('checking a payment against the payer’s funds', () => {
  it.each([
    ['fits a balance that is exactly enough', exposureOf([open(1n, 5n)]), fundsOf(15n, 100n), true],
    ['does not fit a balance that is one unit too low', exposureOf([open(1n, 5n)]), fundsOf(14n, 100n), false],
    ['fits an allowance that is exactly enough', exposureOf([open(1n, 5n)]), fundsOf(100n, 15n), true],
    ['does not fit an allowance that is one unit too low', exposureOf([open(1n, 5n)]), fundsOf(100n, 14n), false],
    ['fits together with charges settled after the reading', exposureOf([], 5n), fundsOf(15n, 15n), true],
    [
      'does not fit together with one unit more settled after the reading',
      exposureOf([], 6n),
      fundsOf(15n, 15n),
      false,
    ],
    [
      'is not counted together with payments that the reading already includes',
      exposureOf([open(1n, 5n)]),
      fundsOf(10n, 10n, [1n]),
      true,
    ],
  ])('a payment %s', (_, exposure, funds, fits) => {
    expect(fitsFunds(PLAIN, exposure, funds)).toBe(fits)
  })

  it('a payment fits without a reading only when nothing else is open or settled since', () => {
    expect(fitsFunds(PLAIN, exposureOf([]), null)).toBe(true)
    expect(fitsFunds(PLAIN, exposureOf([open(1n, 1n)]), null)).toBe(false)
    expect(fitsFunds(PLAIN, exposureOf([], 1n), null)).toBe(false)
  })

  it('ignores the allowance for a payment with its own permit', () => {
    expect(fitsFunds(BY_PERMIT, exposureOf([]), fundsOf(10n, 0n))).toBe(true)
    expect(fitsFunds(BY_PERMIT, exposureOf([open(1n, 1n, { byPermit: true })]), fundsOf(10n, 0n))).toBe(false)
  })
})

describe('the open total', () => {
  it('sums open amounts and charges settled since, except used nonces', () => {
    const exposure = exposureOf([open(1n, 5n), open(2n, 7n)], 3n)
    expect(openTotal(exposure, null)).toBe(15n)
    expect(openTotal(exposure, fundsOf(0n, 0n, [2n]))).toBe(8n)
  })
})

describe('mixing permits', () => {
  it('detects a permit together with a payment that relies on the lasting allowance, in either order', () => {
    expect(mixesPermits(true, exposureOf([open(1n, 1n)]))).toBe(true)
    expect(mixesPermits(false, exposureOf([open(1n, 1n, { byPermit: true })]))).toBe(true)
    expect(mixesPermits(false, exposureOf([open(1n, 1n)]))).toBe(false)
    expect(mixesPermits(true, exposureOf([]))).toBe(false)
  })
})
