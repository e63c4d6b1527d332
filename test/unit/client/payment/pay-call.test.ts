import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { payCall } from '../../../../client/payment/pay-call.ts'
import {
  allowance,
  broken,
  callOf,
  challenged,
  charged,
  composePayments,
  failed,
  ORIGIN,
  type SeenRequest,
  type Step,
  silent,
} from '../../../support/client/scripted-service.ts'

const NEW_PAYMENT = { payment: 'none', retry: 'new_payment' }

/** A result of which a part is missing, as text. */
const cutOff: Step = (request) => {
  const { headers } = charged('5000')(request) as Response
  headers.set('content-type', 'text/plain')
  return new Response('{"ok"', { headers })
}

describe('a paid call', () => {
  it('a call is challenged, signed and charged, and each phase is journaled before the next', async () => {
    const phases: (string | undefined)[] = []
    const { context, seen, journal } = composePayments([
      (request) => {
        phases.push(journal.attempts.get('key-1')?.phase)
        return challenged()(request)
      },
      (request) => {
        phases.push(journal.attempts.get('key-1')?.phase)
        return charged('5000')(request)
      },
    ])
    const { payment } = await payCall(context, callOf())
    expect(phases).toEqual(['intended', 'signed'])
    expect(seen.map(({ key, payment: sent }) => [key, sent !== null])).toEqual([
      ['key-1', false],
      ['key-1', true],
    ])
    expect(payment).toMatchObject({ maximum: '0.005034', charged: '0.005', receiptId: 'receipt-1', replayed: false })
    expect(journal.attempts.get('key-1')).toMatchObject({ phase: 'answered', charged: 5000n, open: null })
  })

  it('a lost answer is asked for again with the same payment', async () => {
    const { context, seen } = composePayments([challenged(), broken, charged('5034')])
    await payCall(context, callOf())
    expect(seen[2]?.payment).toBe(seen[1]?.payment)
  })

  it('is sent again with the same payment when nothing arrives for 45 s, then for twice as long', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const { context, seen } = composePayments([silent, challenged(), silent, silent, charged('5034')])
    const waits: [string, string, number][] = []
    const paid = payCall(
      context,
      callOf({ onWait: ({ code, problem, money }, waitMs) => void waits.push([code, `${problem} ${money}`, waitMs]) }),
    )
    for (const [sent, allowedMs] of [
      [1, 30_000],
      [3, 45_000],
      [4, 90_000],
    ] as const) {
      await vi.waitUntil(() => seen.length === sent, { timeout: 60_000 })
      vi.advanceTimersByTime(allowedMs - 1)
      expect(waits).toHaveLength(Math.max(sent - 2, 0))
      vi.advanceTimersByTime(1)
    }
    expect((await paid).payment).toMatchObject({ charged: '0.005034' })
    expect(new Set(seen.slice(2).map(({ payment }) => payment)).size).toBe(1)
    expect(waits).toEqual([
      ['no_answer', `No answer from ${ORIGIN} for 30 s. none`, 1],
      ['no_answer', `No answer from ${ORIGIN} for 45 s. unknown`, expect.any(Number)],
      ['no_answer', `No answer from ${ORIGIN} for 90 s. unknown`, expect.any(Number)],
    ])
  })

  it('a payment whose outcome is unknown stays reserved and is sent again by the next call of the key', async () => {
    const { context, seen, extend } = composePayments([challenged(), broken], { session: '0.006' })
    await expect(payCall(context, callOf({ patienceMs: 0 }))).rejects.toMatchObject({ money: 'unknown', key: 'key-1' })
    expect(context.budget.left().session).toBe(966n)
    extend(challenged())
    await expect(payCall(context, callOf({ key: 'key-2' }))).rejects.toMatchObject({ code: 'budget_exceeded' })
    extend(charged('5034'))
    await payCall(context, callOf())
    expect(seen.at(-1)?.payment).toBe(seen[1]?.payment)
    expect(context.budget.left().session).toBe(966n)
  })

  it('a refusal at the door does not free a payment that an earlier request may have used', async () => {
    const { context } = composePayments(
      [challenged(), broken, failed(429, 'rate_limited', 'none', 'same_request', { 'retry-after-ms': '99999999' })],
      { session: '1' },
    )
    await expect(payCall(context, callOf())).rejects.toMatchObject({ code: 'rate_limited' })
    expect(context.budget.left().session).toBe(1_000_000n - 5034n)
  })

  it('an uncharged failure frees the payment and is paid with another signature', async () => {
    const { context, seen } = composePayments([
      challenged(),
      failed(503, 'provider_unavailable', 'none', 'new_payment'),
      challenged(),
      charged('5034'),
    ])
    await payCall(context, callOf())
    expect(seen.map(({ payment }) => payment !== null)).toEqual([false, true, false, true])
    expect(seen[3]?.payment).not.toBe(seen[1]?.payment)
  })

  it.each(['request_in_progress', 'settlement_pending', 'payment_state_unknown', 'internal_error'])(
    '%s is asked again with the same payment, never with another',
    async (code) => {
      const pending = failed(503, code, 'unknown', 'same_request')
      const { context, seen } = composePayments([challenged(), pending, pending, charged('5034')])
      await payCall(context, callOf())
      expect(new Set(seen.slice(1).map(({ payment }) => payment)).size).toBe(1)
    },
  )

  it('a result that was cut off is asked for again, whatever type a proxy has given it', async () => {
    const { context, seen } = composePayments([challenged(), cutOff, charged('5000')])
    const { answer } = await payCall(context, callOf({ headers: { accept: 'application/json' } }))
    expect(new TextDecoder().decode(answer.body)).toBe('{"ok":true}')
    expect(seen[2]?.payment).toBe(seen[1]?.payment)
  })

  it('an offer that is none is passed over', async () => {
    const offers = Buffer.from('{"x402Version":2,"accepts":[null,5]}').toString('base64')
    const step: Step = () => new Response('{}', { status: 402, headers: { 'payment-required': offers } })
    const { context } = composePayments([step])
    await expect(payCall(context, callOf())).rejects.toMatchObject({ code: 'challenge_unreadable', money: 'none' })
  })

  it('a wait that is longer than a timer can be does not end at once', async () => {
    const { context, seen } = composePayments([
      failed(503, 'service_unavailable', 'none', 'same_request', { 'retry-after-ms': String(2 ** 32) }),
    ])
    const interrupt = new AbortController()
    const onWait = () => void setTimeout(() => interrupt.abort(), 100)
    const call = callOf({ patienceMs: Number.POSITIVE_INFINITY, signal: interrupt.signal, onWait })
    await expect(payCall(context, call)).rejects.toMatchObject({ code: 'service_unavailable' })
    expect(seen).toHaveLength(1)
  })

  it('idempotency_key_reused is never repeated', async () => {
    const { context, seen } = composePayments([failed(409, 'idempotency_key_reused', 'none', 'never')])
    await expect(payCall(context, callOf())).rejects.toMatchObject({ code: 'idempotency_key_reused', money: 'none' })
    expect(seen).toHaveLength(1)
  })

  it.each(['insufficient_funds', 'payer_has_code', 'payment_rejected'])('%s is not signed again', async (code) => {
    const { context, seen } = composePayments([challenged(), challenged({}, { code, ...NEW_PAYMENT })], {
      session: '1',
    })
    await expect(payCall(context, callOf())).rejects.toMatchObject({ code, money: 'none' })
    expect(seen).toHaveLength(2)
    expect(context.budget.left().session).toBe(1_000_000n)
  })

  it('a service that refuses every signature gets at most four', async () => {
    const refusal = challenged({}, { code: 'challenge_expired', ...NEW_PAYMENT })
    const { context, seen } = composePayments([challenged(), ...Array.from({ length: 9 }, () => refusal)])
    await expect(payCall(context, callOf())).rejects.toMatchObject({ code: 'challenge_expired' })
    expect(seen.filter(({ payment }) => payment !== null)).toHaveLength(4)
  })

  it('a call whose permit is in use waits for as many turns as its patience allows', async () => {
    const inUse = failed(409, 'permit_already_used', 'none', 'new_payment')
    const turns = Array.from({ length: 6 }, () => [challenged(), inUse]).flat()
    const { context, seen } = composePayments([...turns, challenged(), charged('5034')])
    await payCall(context, callOf())
    expect(new Set(seen.map(({ payment }) => payment)).size).toBe(8)
  })

  it('another recipient than at the first use is refused before anything is signed', async () => {
    const { context, seen } = composePayments([
      challenged(),
      charged('1'),
      challenged({ payTo: `0x${'9'.repeat(40)}` }),
    ])
    await payCall(context, callOf())
    await expect(payCall(context, callOf({ key: 'key-2' }))).rejects.toMatchObject({
      code: 'challenge_refused',
      differences: [{ term: 'payTo', expected: `0x${'1'.repeat(40)}`, actual: `0x${'9'.repeat(40)}` }],
    })
    expect(seen).toHaveLength(3)
  })

  it('a challenge above the quote is refused, also the second one of a call', async () => {
    const mismatch = challenged({ amount: '5035' }, { code: 'audio_claim_mismatch', ...NEW_PAYMENT })
    const { context } = composePayments([challenged(), mismatch], { session: '1' })
    await expect(payCall(context, callOf({ quotedMaximum: 5034n }))).rejects.toMatchObject({
      code: 'challenge_refused',
    })
    expect(context.budget.left().session).toBe(1_000_000n)
  })

  it('a call that is priced first sends its content once, with the payment', async () => {
    const priceFirst = { url: 'http://localhost:4020/v1/quotes', body: '{"challenge":true}' }
    const { context, seen } = composePayments([challenged(), charged('5034')])
    await payCall(context, callOf({ priceFirst }))
    expect(seen.map(({ url, body, payment }) => [new URL(url).pathname, body, payment !== null])).toEqual([
      ['/v1/quotes', '{"challenge":true}', false],
      ['/v1/chat/completions', '{"a":1}', true],
    ])
  })

  it('an answer that was received before is marked as a replay and not counted again', async () => {
    const { context } = composePayments([challenged(), charged('5000'), challenged(), charged('5000')], {
      session: '1',
    })
    expect((await payCall(context, callOf())).payment.replayed).toBe(false)
    expect((await payCall(context, callOf())).payment.replayed).toBe(true)
    expect(context.budget.left().session).toBe(995_000n)
  })

  it('a charge above the authorized maximum is reported', async () => {
    const { context, journal } = composePayments([challenged(), charged('5035')])
    expect((await payCall(context, callOf())).payment.verified).toBe('failed')
    expect(journal.attempts.get('key-1')?.verification).toBe('failed')
  })

  it('a replay is as right as before when its price has fallen since', async () => {
    const { context, journal } = composePayments(
      [challenged(), charged('5034'), challenged({ amount: '4000' }), charged('5034')],
      { session: '1' },
    )
    await payCall(context, callOf())
    const { payment } = await payCall(context, callOf())
    expect(payment).toMatchObject({ replayed: true, verified: 'not_checked', problems: [] })
    expect([journal.attempts.get('key-1')?.verification, context.budget.left().session]).toEqual(['none', 994_966n])
  })

  it.each(['4000', '6000'])(
    'the charge of an earlier process’s payment counts, and is no fault, when the price is %s by now',
    async (amount) => {
      const { context, journal, clock, extend } = composePayments([challenged(), broken], { session: '1' })
      await expect(payCall(context, callOf({ patienceMs: 0 }))).rejects.toMatchObject({ money: 'unknown' })
      clock.skew = 601_000
      const expiresAt = new Date(Date.now() + 900_000).toISOString()
      extend(challenged({ amount, expiresAt }), charged('5034'))
      const { payment } = await payCall(context, callOf())
      expect(payment).toMatchObject({ charged: '0.005034', verified: 'not_checked', problems: [] })
      expect(context.budget.left().session).toBe(1_000_000n - 5034n)
      expect(journal.attempts.get('key-1')?.receipts).toMatchObject([{ maxima: ['5034', amount] }])
    },
  )

  it('an answer without a readable settlement counts with its maximum', async () => {
    const { context } = composePayments([challenged(), () => Response.json({})], { session: '1' })
    expect((await payCall(context, callOf())).payment.charged).toBe('0.005034')
    expect(context.budget.left().session).toBe(1_000_000n - 5034n)
  })

  it('an interrupted call says that its payment may still be charged', async () => {
    const abort = new AbortController()
    const { context } = composePayments([
      challenged(),
      () => {
        abort.abort()
        return new Error('aborted')
      },
    ])
    await expect(payCall(context, callOf({ signal: abort.signal }))).rejects.toMatchObject({
      code: 'aborted',
      money: 'unknown',
    })
  })

  it('a signature of an earlier process is not sent after its deadline', async () => {
    const { context, seen, clock, extend } = composePayments([challenged(), broken])
    await expect(payCall(context, callOf({ patienceMs: 0 }))).rejects.toMatchObject({ money: 'unknown' })
    clock.skew = 601_000
    extend(challenged({ expiresAt: new Date(Date.now() + 900_000).toISOString() }), charged('5034'))
    await payCall(context, callOf())
    expect(seen.slice(2).map(({ payment }) => payment !== null)).toEqual([false, true])
    expect(seen[3]?.payment).not.toBe(seen[1]?.payment)
  })
})

interface SentPermit {
  readonly amount?: string
  readonly nonce?: string
  readonly signature?: string
}

const infosOf = (seen: readonly SeenRequest[]): readonly SentPermit[] =>
  seen.flatMap(({ payment }) => {
    if (payment === null) return []
    const { extensions = {} } = JSON.parse(Buffer.from(payment, 'base64').toString('utf8')) as {
      readonly extensions?: { eip2612GasSponsoring?: { info?: SentPermit } }
    }
    return [extensions.eip2612GasSponsoring?.info ?? {}]
  })

/** Returns the permits of the payments that were sent, in their order; `null` for a payment without one. */
const permitsOf = (seen: readonly SeenRequest[]) =>
  infosOf(seen).map(({ amount, nonce }) => (amount === undefined ? null : { amount, nonce }))

describe('a call that the allowance of Permit2 does not cover', () => {
  const TAKES_PERMITS = { extensions: { eip2612GasSponsoring: { info: {}, schema: {} } } }
  const missing = challenged(TAKES_PERMITS, { code: 'permit2_allowance_required', ...NEW_PAYMENT })

  it('brings a permit of exactly its maximum, and another one when the nonce was used meanwhile', async () => {
    const { context, seen } = composePayments([
      challenged(TAKES_PERMITS),
      missing,
      allowance({ nonce: '5' }),
      failed(409, 'permit_already_used', 'none', 'new_payment'),
      challenged(TAKES_PERMITS),
      allowance({ nonce: '6' }),
      charged('5034'),
    ])
    await payCall(context, callOf())
    expect(permitsOf(seen)).toEqual([null, { amount: '5034', nonce: '5' }, { amount: '5034', nonce: '6' }])
  })

  it('brings none while the service keeps one of the wallet', async () => {
    const stored = { value: '20000000', nonce: '0', deadline: '1' }
    const { context, seen } = composePayments([
      challenged(TAKES_PERMITS),
      missing,
      allowance({ stored }),
      charged('5034'),
    ])
    await payCall(context, callOf())
    expect(permitsOf(seen)).toEqual([null, null])
  })

  it('names what is missing where the service takes no permits', async () => {
    const refused = challenged({}, { code: 'permit2_allowance_required', ...NEW_PAYMENT })
    const { context } = composePayments([challenged(), refused, allowance()], { day: '1' })
    const call = payCall(context, callOf())
    await expect(call).rejects.toMatchObject({
      code: 'permit2_allowance_required',
      money: 'none',
      problem: expect.stringContaining('may take 0.000001 USDC of the wallet, the call costs up to 0.005034'),
      advice: 'Approve Permit2 once with approve().',
    })
    await expect(call).rejects.not.toThrow(/RPC/)
    expect(context.budget.left().day).toBe(1_000_000n)
  })

  const TAKES_LASTING = { extensions: { eip2612GasSponsoring: { info: { lasting: true }, schema: {} } } }
  const missingLasting = challenged(TAKES_LASTING, { code: 'permit2_allowance_required', ...NEW_PAYMENT })

  it('brings one lasting permit where the service takes it, up to the limits, and none once it is on chain', async () => {
    const { context, seen, extend } = composePayments(
      [challenged(TAKES_LASTING), missingLasting, allowance({ nonce: '5' }), charged('5034')],
      { session: '2', day: '3' },
    )
    await payCall(context, callOf())
    const lasting = { amount: '2000000', nonce: '5' }
    expect(permitsOf(seen)).toEqual([null, lasting])
    // The chain of the service is a block behind.
    extend(challenged(TAKES_LASTING), allowance({ nonce: '5' }), charged('5034'))
    await payCall(context, callOf({ key: 'key-2' }))
    extend(challenged(TAKES_LASTING), allowance({ nonce: '6', allowance: '1989932' }), charged('5034'))
    await payCall(context, callOf({ key: 'key-3' }))
    extend(challenged(TAKES_LASTING), charged('5034'))
    await payCall(context, callOf({ key: 'key-4' }))
    expect(permitsOf(seen)).toEqual([null, lasting, lasting, null, null])
    expect(new Set(infosOf(seen).flatMap(({ signature }) => signature ?? [])).size).toBe(1)
  })

  it('signs another lasting permit when the nonce was used meanwhile', async () => {
    const { context, seen } = composePayments([
      challenged(TAKES_LASTING),
      missingLasting,
      allowance({ nonce: '5' }),
      failed(409, 'permit_already_used', 'none', 'new_payment'),
      challenged(TAKES_LASTING),
      allowance({ nonce: '6' }),
      charged('5034'),
    ])
    await payCall(context, callOf())
    const amount = (2n ** 256n - 1n).toString()
    expect(permitsOf(seen)).toEqual([null, { amount, nonce: '5' }, { amount, nonce: '6' }])
  })

  it('brings a lasting permit when other calls have reserved the allowance, instead of waiting for them', async () => {
    const { context, seen } = composePayments([
      challenged(TAKES_LASTING),
      failed(409, 'funds_reserved', 'none', 'same_request'),
      allowance({ nonce: '5', allowance: '5034' }),
      challenged(TAKES_LASTING),
      charged('5034'),
    ])
    const underWay = context.budget.underWay.bind(context.budget)
    context.budget.underWay = () => underWay() + 5034n
    await payCall(context, callOf())
    expect(permitsOf(seen)).toMatchObject([null, { nonce: '5' }])
  })

  it('brings no lasting permit where nothing lasting may be signed, nor where the limits leave no more than its maximum', async () => {
    for (const [limits, approves] of [
      [{}, false],
      [{ session: '0.005034' }, true],
    ] as const) {
      const script = [challenged(TAKES_LASTING), missingLasting, allowance({ nonce: '5' }), charged('5034')]
      const { context, seen } = composePayments(script, limits, approves)
      await payCall(context, callOf())
      expect(permitsOf(seen)).toEqual([null, { amount: '5034', nonce: '5' }])
    }
  })

  it('is ended by its own interruption, and leaves the question to the calls that wait as well', async () => {
    const { context, seen, extend } = composePayments([challenged(TAKES_PERMITS), missing], {}, false)
    const interrupt = new AbortController()
    extend((request) => {
      interrupt.abort()
      return allowance()(request)
    })
    await expect(payCall(context, callOf({ signal: interrupt.signal }))).rejects.toMatchObject({ code: 'aborted' })
    extend(challenged(TAKES_PERMITS), allowance({ nonce: '1' }), charged('5034'))
    await payCall(context, callOf({ key: 'key-2' }))
    expect(permitsOf(seen)).toEqual([null, { amount: '5034', nonce: '1' }])
  })
})
