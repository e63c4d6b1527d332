import { describe, expect, it } from 'vitest'
import type { Payment, PaymentContext } from '../../../../client/payment/paid-call.ts'
import { payCall } from '../../../../client/payment/pay-call.ts'
import type { ReceiptContext } from '../../../../client/receipts/check-receipt.ts'
import { PaymentVerifier, type VerificationTime } from '../../../../client/receipts/payment-verifier.ts'
import { ReceiptStore } from '../../../../client/receipts/receipt-store.ts'
import { SigningKeys } from '../../../../client/receipts/signing-keys.ts'
import { callOf, challenged, charged, composePayments, ORIGIN, type Step } from '../payment/scripted-service.ts'
import { createKeys, receiptOf, signReceipt } from './receipts.ts'

const { privateKey, key } = createKeys()
const RECEIPT_ID = receiptOf().id

/** Pays for a call of a service that shows its receipt in a certain way. */
async function pay(showReceipt: (payer: string) => Response | Error, time: VerificationTime = 'at_once') {
  const steps: Step[] = [challenged(), charged('5034', RECEIPT_ID)]
  const { context, journal } = composePayments(steps, { session: '1' })
  const asked: string[] = []
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const { pathname } = new URL(input instanceof Request ? input.url : input)
    asked.push(pathname)
    if (pathname === '/.well-known/jwks.json') return Response.json({ keys: [key] })
    if (!pathname.startsWith('/v1/receipts/')) return await context.fetch(input, init)
    const answer = showReceipt(context.payer)
    if (answer instanceof Error) throw answer
    return answer
  }
  const receipts: ReceiptContext = {
    ...context,
    fetch,
    baseUrl: ORIGIN,
    keys: new SigningKeys({ fetch, now: context.now }, ORIGIN),
    store: new ReceiptStore(null),
    node: () => Promise.resolve(null),
  }
  const verified: Payment[] = []
  const verifier = new PaymentVerifier(receipts, time, (payment) => verified.push(payment))
  const paying: PaymentContext = { ...context, fetch, verify: (paid, call) => verifier.after(paid, call) }
  const { payment, answer } = await payCall(paying, callOf())
  await verifier.settled()
  return { payment, answer, verified, asked, attempt: journal.attempts.get('key-1') }
}

const BODY = JSON.stringify({ ok: true })
const genuine = (payer: string) =>
  Response.json(
    signReceipt(
      receiptOf({
        payer,
        pay_to: `0x${'1'.repeat(40)}`,
        asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
        transaction: '0xaa',
        settlement: { state: 'confirmed', transaction: '0xaa', block_number: '1' },
        result_digest: '4062edaf750fb8074e7e83e0c9028c94e32468a8b6f1614774328ef045150f93',
      }),
      privateKey,
    ),
  )
const refusal = (status: number, code: string) =>
  Response.json(
    { type: 'error', error: { type: 'x', message: 'No.', param: null, code, payment: 'none', retry: 'never' } },
    { status },
  )

describe('the receipt of a payment', () => {
  it('one that fits the payment passes, and the journal has the verdict', async () => {
    const { payment, attempt } = await pay(genuine)
    expect(payment).toMatchObject({ verified: 'passed', problems: [] })
    expect(attempt).toMatchObject({ phase: 'verified', verification: 'passed', model: 'speechvendor/scribe-v2' })
  })

  it('one about another payment fails, what differs is named, and the result is returned', async () => {
    const { payment, answer, attempt } = await pay(() => Response.json(signReceipt(receiptOf(), privateKey)))
    expect(payment.verified).toBe('failed')
    expect(payment.problems.join()).toMatch(/payment: its payer is 0xa+, not 0x/)
    expect(payment.problems.join()).toMatch(/result: its digest/)
    expect(new TextDecoder().decode(answer.body)).toBe(BODY)
    expect(attempt).toMatchObject({ verification: 'failed', charged: 5034n, open: null })
  })

  it.each<[string, () => Response]>([
    ['one that the service does not know', () => refusal(404, 'not_found')],
    ['one with another id', () => Response.json({ ...receiptOf(), id: 'another' })],
    ['something else in its place', () => Response.json({ object: 'list' })],
  ])('%s fails', async (_name, show) => {
    const { payment, attempt } = await pay(show)
    expect(payment.verified).toBe('failed')
    expect(payment.problems).toHaveLength(1)
    expect(attempt?.verification).toBe('failed')
  })

  it.each<[string, () => Response | Error]>([
    ['a receipt that is refused for the moment', () => refusal(403, 'forbidden')],
    ['keys that are not published', () => new Response('x')],
  ])('%s is not a verdict', async (_name, show) => {
    const { payment, attempt } = await pay(show)
    expect(payment).toMatchObject({ verified: 'not_checked', problems: [expect.stringContaining('not be checked')] })
    expect(attempt?.verification).toBe('none')
  })

  it('later: the call returns first, and the verdict comes to the listener', async () => {
    const { payment, verified } = await pay(genuine, 'later')
    expect(payment.verified).toBe('not_checked')
    expect(verified.map((each) => each.verified)).toEqual(['passed'])
  })

  it('never: nothing is asked for', async () => {
    const { asked } = await pay(genuine, 'never')
    expect(asked).toEqual(['/v1/chat/completions', '/v1/chat/completions'])
  })
})
