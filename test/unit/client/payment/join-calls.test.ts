import { describe, expect, it } from 'vitest'
import { payCall } from '../../../../client/payment/pay-call.ts'
import { callOf, challenged, charged, composePayments } from './scripted-service.ts'

describe('calls at the same time', () => {
  it('calls with one key are one call: one challenge, one payment, one reservation', async () => {
    const { context, seen } = composePayments([challenged(), charged('5000')], { session: '1' })
    const paid = await Promise.all(Array.from({ length: 20 }, () => payCall(context, callOf())))
    expect(seen).toHaveLength(2)
    expect(paid.filter(({ payment }) => !payment.replayed)).toHaveLength(1)
    expect(context.budget.left().session).toBe(995_000n)
  })

  it('calls with different keys are different calls', async () => {
    const { context, seen } = composePayments([challenged(), challenged(), charged('1'), charged('2', 'receipt-2')])
    await Promise.all([payCall(context, callOf()), payCall(context, callOf({ key: 'key-2' }))])
    expect(seen).toHaveLength(4)
  })

  it('another request under a key that is under way is refused before it is sent', async () => {
    const { context, seen } = composePayments([challenged(), charged('5000')])
    const [first, other] = await Promise.allSettled([
      payCall(context, callOf()),
      payCall(context, callOf({ identity: 'another' })),
    ])
    expect(first.status).toBe('fulfilled')
    expect(other).toMatchObject({ reason: { code: 'idempotency_key_reused', money: 'none', key: 'key-1' } })
    expect(seen).toHaveLength(2)
  })

  it('a call that joined an interrupted one goes on by itself, with the same payment', async () => {
    const abortion = new AbortController()
    const { context, seen } = composePayments([
      challenged(),
      () => {
        abortion.abort()
        return new Error('aborted')
      },
      charged('5034'),
    ])
    const [first, joined] = await Promise.allSettled([
      payCall(context, callOf({ signal: abortion.signal })),
      payCall(context, callOf()),
    ])
    expect(first).toMatchObject({ reason: { code: 'aborted' } })
    expect(joined).toMatchObject({ status: 'fulfilled', value: { payment: { charged: '0.005034' } } })
    expect(seen[2]?.payment).toBe(seen[1]?.payment)
  })

  it('a joined call that is interrupted ends, and the other one goes on', async () => {
    const abortion = new AbortController()
    const { context } = composePayments([
      challenged(),
      (request) => {
        abortion.abort()
        return charged('5034')(request)
      },
    ])
    const [first, joined] = await Promise.allSettled([
      payCall(context, callOf()),
      payCall(context, callOf({ signal: abortion.signal })),
    ])
    expect(first.status).toBe('fulfilled')
    expect(joined).toMatchObject({ reason: { code: 'aborted', money: 'unknown' } })
  })
})
