import { describe, expect, it } from 'vitest'
import type { BudgetLimits } from '../../../../client/budget/limits.ts'
import { payCall } from '../../../../client/payment/pay-call.ts'
import { callOf, challenged, charged, composePayments } from './scripted-service.ts'

describe('limits that are lowered while a call is signed', () => {
  it('hold for this call: its signature is not sent, and its reservation ends', async () => {
    let limits: BudgetLimits = { groups: { chat: { day: '1' } } }
    const { context, seen, journal } = composePayments([challenged(), charged('1000')], () => limits)
    const sign: typeof context.sign = async (challenge) => {
      const payment = await context.sign(challenge)
      limits = { groups: { chat: { day: '0.000001' } } }
      return payment
    }
    const call = callOf({ group: 'chat' })
    const refused = payCall({ ...context, sign }, call)
    await expect(refused).rejects.toMatchObject({ code: 'budget_exceeded', group: 'chat', money: 'none' })
    expect(seen.map(({ payment }) => payment)).toEqual([null])
    expect(journal.attempts.get(call.key)).toMatchObject({ phase: 'refused', payment: null, open: null })
    limits = { groups: { chat: { day: '1' } } }
    expect(context.budget.left('chat').day).toBe(1_000_000n)
  })

  it('do not hold back a payment that was sent before: it is repeated as it is', async () => {
    let limits: BudgetLimits = { session: '1' }
    const lost = () => {
      limits = { session: '0' }
      return new TypeError('fetch failed')
    }
    const { context, seen } = composePayments([challenged(), lost, charged('1000')], () => limits)
    const { payment } = await payCall(context, callOf())
    expect(payment.charged).toBe('0.001')
    expect(new Set(seen.slice(1).map((request) => request.payment)).size).toBe(1)
  })
})

describe('the group of a call', () => {
  it('is that of its charge in the journal, and of the call that repeats it without one', async () => {
    const { context, journal, extend } = composePayments([challenged(), charged('1000')])
    const call = callOf({ group: 'chat' })
    await payCall(context, call)
    extend(charged('1000'))
    await payCall(context, callOf())
    expect(journal.attempts.get(call.key)?.receipts).toMatchObject([{ charge: '1000', group: 'chat' }])
  })

  it('stays with a payment of unknown outcome that another program repeats', async () => {
    const { context, journal, extend } = composePayments([challenged(), () => new TypeError('fetch failed')])
    await expect(payCall(context, callOf({ group: 'chat', patienceMs: 0 }))).rejects.toMatchObject({
      code: 'connection_lost',
    })
    extend(charged('1000'))
    await payCall(context, callOf())
    expect(journal.attempts.get('key-1')?.receipts).toMatchObject([{ charge: '1000', group: 'chat' }])
  })
})
