import { describe, expect, it } from 'vitest'
import { payCall } from '../../../../client/payment/pay-call.ts'
import { callOf, challenged, charged, composePayments } from './scripted-service.ts'

describe('what a caller checks before a payment', () => {
  it('is checked with the maximum that is about to be paid', async () => {
    const { context } = composePayments([challenged(), charged('1000')])
    const checked: bigint[] = []
    await payCall(context, callOf({ beforePayment: (maximum) => checked.push(maximum) }))
    expect(checked).toEqual([5034n])
  })

  it('refuses the payment when it throws: nothing is sent, and nothing stays reserved', async () => {
    const { context, seen, journal } = composePayments([challenged()], { session: '1' })
    await expect(payCall(context, callOf({ beforePayment: refuse }))).rejects.toThrow('not agreed')
    expect(seen.map(({ payment }) => payment)).toEqual([null])
    expect(context.budget.left().session).toBe(1_000_000n)
    expect([...journal.attempts.all()]).toMatchObject([{ payment: null, open: null }])
  })
})

function refuse(): never {
  throw new Error('not agreed')
}
