import { sign } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Payment, PaymentContext } from '../../../../client/payment/paid-call.ts'
import { payCall } from '../../../../client/payment/pay-call.ts'
import type { ReceiptContext } from '../../../../client/receipts/check-receipt.ts'
import { PaymentVerifier, type VerificationTime } from '../../../../client/receipts/payment-verifier.ts'
import { ReceiptStore } from '../../../../client/receipts/receipt-store.ts'
import { SigningKeys } from '../../../../client/receipts/signing-keys.ts'
import { callOf, challenged, charged, composePayments, ORIGIN, type Step } from '../payment/scripted-service.ts'
import { createKeys, KID, receiptOf, signReceipt } from './receipts.ts'

const { privateKey, key } = createKeys()
const RECEIPT_ID = receiptOf().id
const WAITS = { patienceMs: 0, timeoutMs: 20 }

interface Other {
  readonly answered?: Step
  /** `null` is never answered. */
  readonly keys?: () => Response | null
}

/** A request that is never answered. */
function unanswered(init: RequestInit | undefined): Promise<Response> {
  return new Promise((_resolve, reject) => {
    init?.signal?.addEventListener('abort', () => reject(new Error('aborted')))
  })
}

/** Pays for a call of a service that shows its receipt in a certain way. */
async function pay(
  showReceipt: (payer: string) => Response | Error | null,
  time: VerificationTime = 'at_once',
  { answered = charged('5034', RECEIPT_ID), keys = () => Response.json({ keys: [key] }) }: Other = {},
) {
  const steps: Step[] = [challenged(), answered]
  const { context, journal } = composePayments(steps, { session: '1' })
  const asked: string[] = []
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const { pathname } = new URL(input instanceof Request ? input.url : input)
    asked.push(pathname)
    if (pathname === '/.well-known/jwks.json') return keys() ?? (await unanswered(init))
    if (!pathname.startsWith('/v1/receipts/')) return await context.fetch(input, init)
    const answer = showReceipt(context.payer)
    if (answer instanceof Error) throw answer
    return answer ?? (await unanswered(init))
  }
  const receipts: ReceiptContext = {
    ...context,
    fetch,
    baseUrl: ORIGIN,
    keys: new SigningKeys({ fetch, now: context.now }, ORIGIN, WAITS),
    store: new ReceiptStore(null),
    node: () => Promise.resolve(null),
  }
  const verified: Payment[] = []
  const verifier = new PaymentVerifier(receipts, time, (payment) => verified.push(payment), WAITS)
  const paying: PaymentContext = { ...context, fetch, verify: (paid, call) => verifier.after(paid, call) }
  const { payment, answer } = await payCall(paying, callOf())
  await verifier.settled()
  return { payment, answer, verified, asked, attempt: journal.attempts.get('key-1') }
}

function signStatement(statement: object): { readonly signature: string } {
  const [head, body] = [{ alg: 'EdDSA', kid: KID }, statement].map((each) =>
    Buffer.from(JSON.stringify(each)).toString('base64url'),
  )
  return {
    signature: `${head}.${body}.${sign(null, Buffer.from(`${head}.${body}`), privateKey).toString('base64url')}`,
  }
}

/** Answers with a statement of delivery of a certain form. */
const chargedWithStatement =
  (statement: Record<string, unknown>): Step =>
  (request) => {
    const answer = charged('5034', RECEIPT_ID)(request) as Response
    const settled = JSON.parse(Buffer.from(answer.headers.get('payment-response') ?? '', 'base64').toString()) as object
    const extensions = { 'offer-receipt': { info: { receipt: { format: 'jws', ...statement } } } }
    const header = Buffer.from(JSON.stringify({ ...settled, extensions })).toString('base64')
    answer.headers.set('payment-response', header)
    return answer
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

  it.each<VerificationTime>(['at_once', 'later'])('%s: a statement of another form loses no result', async (time) => {
    const { answer, verified } = await pay(genuine, time, { answered: chargedWithStatement({ signature: 5 }) })
    expect(new TextDecoder().decode(answer.body)).toBe(BODY)
    expect(verified.map((each) => each.verified)).toEqual(['failed'])
  })

  it.each<VerificationTime>(['at_once', 'later'])(
    '%s: a signed statement that is none loses no result',
    async (time) => {
      const { signature } = signStatement({})
      const { answer, verified } = await pay(genuine, time, { answered: chargedWithStatement({ signature }) })
      expect(new TextDecoder().decode(answer.body)).toBe(BODY)
      expect(verified.map((each) => each.verified)).toEqual(['failed'])
    },
  )

  it('a service that never answers for it does not hold the result back', async () => {
    const late = { problems: [expect.stringContaining('could not be checked')], verified: 'not_checked' }
    expect((await pay(() => null)).payment).toMatchObject(late)
    expect((await pay(genuine, 'at_once', { keys: () => null })).payment).toMatchObject(late)
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
