import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Budget } from '../../../../client/budget/budget.ts'
import type { BudgetLimits } from '../../../../client/budget/limits.ts'
import { createMemoryJournal } from '../../../../client/journal/journal.ts'
import { deriveCallKey } from '../../../../client/payment/call-key.ts'
import { readChallenge } from '../../../../client/payment/challenge.ts'
import { ChallengeRefused, checkChallenge } from '../../../../client/payment/check-challenge.ts'
import { payCall } from '../../../../client/payment/pay-call.ts'
import { bodyDigest, createPayingFetch, LogicalCalls } from '../../../../client/payment/paying-fetch.ts'
import { openPins } from '../../../../client/payment/pins.ts'
import { canonicalJson } from '../../../../client/wire/json.ts'
import {
  broken,
  callOf,
  challenged,
  challengeHeader,
  charged,
  composePayments,
  failed,
  type OfferedTerms,
  ORIGIN,
  type Step,
  URL_OF_CALL,
} from '../../../support/client/scripted-service.ts'

function compose(script: readonly Step[], limits = {}) {
  const composed = composePayments(script, limits)
  return { ...composed, fetch: createPayingFetch(composed.context, ORIGIN) }
}
const init = { method: 'POST', body: '{"a":1}', headers: { 'content-type': 'application/json' } }
function refuse(): never {
  throw new Error('not agreed')
}
const HOUR_MS = 3_600_000
const PAYER = `0x${'5'.repeat(40)}`
const secret = new Uint8Array(32).fill(7)
const content = {
  operation: 'createTranscription',
  contentSha256: 'a'.repeat(64),
  options: { b: 1, a: 'x' },
  occurrence: 0,
}
async function digestOf(text: string): Promise<string> {
  const form = new FormData()
  form.append('file', new Blob([text]), 'a.mp3')
  const request = new Request('http://localhost', { method: 'POST', body: form })
  return bodyDigest(new Uint8Array(await request.clone().arrayBuffer()), request.headers.get('content-type'))
}
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

describe('the paying fetch', () => {
  it('a request without a key is paid for under a key of its own', async () => {
    const { fetch, seen } = compose([challenged(), charged('1'), challenged(), charged('1', 'receipt-2')])
    expect((await fetch(URL_OF_CALL, init)).status).toBe(200)
    expect((await fetch(URL_OF_CALL, init)).status).toBe(200)
    expect(seen[0]?.key).toBe(seen[1]?.key)
    expect(seen[2]?.key).not.toBe(seen[1]?.key)
  })

  it('an SDK’s retry after a failure, a lost connection or an abort keeps the key', async () => {
    const abort = new AbortController()
    const { fetch, seen } = compose([
      challenged(),
      failed(503, 'request_in_progress', 'authorized', 'same_request'),
      broken,
      () => {
        abort.abort()
        return new Error('aborted')
      },
      charged('1'),
    ])
    expect((await fetch(URL_OF_CALL, init)).status).toBe(503)
    await expect(fetch(URL_OF_CALL, init)).rejects.toBeInstanceOf(TypeError)
    await expect(fetch(URL_OF_CALL, { ...init, signal: abort.signal })).rejects.toMatchObject({ name: 'AbortError' })
    expect((await fetch(URL_OF_CALL, init)).status).toBe(200)
    expect(new Set(seen.map(({ key }) => key)).size).toBe(1)
    expect(new Set(seen.slice(1).map(({ payment }) => payment)).size).toBe(1)
  })

  it('a key of the user is kept', async () => {
    const { fetch, seen } = compose([challenged(), charged('1')])
    await fetch(URL_OF_CALL, { ...init, headers: { ...init.headers, 'x-idempotency-key': 'mine' } })
    expect(seen.map(({ key }) => key)).toEqual(['mine', 'mine'])
  })

  it('a refusal by the budget is an answer that SDKs do not retry', async () => {
    const { fetch } = compose([challenged()], { call: '0.001' })
    const answer = await fetch(URL_OF_CALL, init)
    expect(answer.status).toBe(402)
    expect(answer.headers.get('x-should-retry')).toBe('false')
    expect(await answer.json()).toMatchObject({ error: { code: 'budget_exceeded', payment: 'none' } })
  })

  it('requests that are not paid for pass without key and payment', async () => {
    const { fetch, seen } = compose([() => Response.json({}), () => Response.json({})])
    await fetch(`${ORIGIN}/v1/models`)
    await fetch('http://localhost:1/v1/chat/completions', init)
    expect(seen.map(({ key, payment }) => [key, payment])).toEqual([
      [null, null],
      [null, null],
    ])
  })
})

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

describe('keys of logical calls', () => {
  it('a request whose equal predecessor failed repeats that call', () => {
    const calls = new LogicalCalls(createMemoryJournal(), PAYER)
    const first = calls.begin('same')
    first.fail()
    expect(calls.begin('same').key).toBe(first.key)
  })

  it('a request whose equal predecessor succeeded or is under way is another call', () => {
    const calls = new LogicalCalls(createMemoryJournal(), PAYER)
    const first = calls.begin('same')
    const second = calls.begin('same')
    second.succeed()
    second.fail()
    const third = calls.begin('same')
    expect(new Set([first.key, second.key, third.key]).size).toBe(3)
  })

  it('50 failures of one call keep one key, also when each is reported twice', () => {
    const calls = new LogicalCalls(createMemoryJournal(), PAYER)
    const keys = Array.from({ length: 50 }, () => {
      const call = calls.begin('same')
      call.fail()
      call.fail()
      return call.key
    })
    expect(new Set(keys).size).toBe(1)
  })

  it('parallel equal calls that fail keep a key each', () => {
    const calls = new LogicalCalls(createMemoryJournal(), PAYER)
    const [first, second] = [calls.begin('same'), calls.begin('same')]
    first.fail()
    second.fail()
    expect([calls.begin('same').key, calls.begin('same').key].sort()).toEqual([first.key, second.key].sort())
  })

  it('an unfinished call of an earlier process is continued within a day, an answered one is not', () => {
    const clock = { now: 0 }
    const journal = createMemoryJournal(() => clock.now)
    const intend = (key: string, identity: string) =>
      journal.append({
        phase: 'intended',
        key,
        identity,
        origin: '',
        method: 'POST',
        path: '',
        purpose: '',
        payer: PAYER,
      })
    intend('left', 'a')
    intend('done', 'b')
    journal.append({
      phase: 'answered',
      key: 'done',
      charge: '1',
      transaction: null,
      receiptId: 'r',
      receiptToken: null,
    })
    intend('old', 'c')
    clock.now = 23 * HOUR_MS
    const calls = new LogicalCalls(journal, PAYER, () => clock.now)
    expect(calls.begin('a').key).toBe('left')
    expect(calls.begin('a').key).not.toBe('left')
    expect(calls.begin('b').key).not.toBe('done')
    clock.now = 25 * HOUR_MS
    expect(calls.begin('c').key).not.toBe('old')
  })
})

describe('a call that failed in this process', () => {
  it('is repeated by an equal request within a day, and is another call when its result may be gone', () => {
    const clock = { now: 0 }
    const calls = new LogicalCalls(
      createMemoryJournal(() => clock.now),
      PAYER,
      () => clock.now,
    )
    const first = calls.begin('same')
    first.fail()
    clock.now = 23 * HOUR_MS
    const again = calls.begin('same')
    expect(again.key).toBe(first.key)
    again.fail()
    clock.now = 49 * HOUR_MS
    expect(calls.begin('same').key).not.toBe(first.key)
  })
})

describe('an unfinished call of another wallet with the same journal', () => {
  it('is not taken up by an equal request: its key is another payer’s, and its payment stays open', async () => {
    const other = composePayments([challenged(), broken])
    const own = composePayments([challenged(), charged('5034')])
    const { journal } = other
    await expect(createPayingFetch(other.context, ORIGIN)(URL_OF_CALL, init)).rejects.toBeInstanceOf(TypeError)
    const context = { ...own.context, journal, budget: new Budget({ day: '1' }, journal), pins: openPins(journal, {}) }
    expect((await createPayingFetch(context, ORIGIN)(URL_OF_CALL, init)).status).toBe(200)
    expect(own.seen[0]?.key).not.toBe(other.seen[0]?.key)
    expect(journal.attempts.get(other.seen[0]?.key ?? '')).toMatchObject({
      payer: other.context.payer,
      open: { maximum: 5034n, isSigned: true },
    })
    expect(context.budget.left().day).toBe(1_000_000n - 2n * 5034n)
  })
})

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

describe('keys of calls', () => {
  it('a key depends on secret, operation, content, options and occurrence, and on nothing else', () => {
    const key = deriveCallKey(secret, content)
    expect(deriveCallKey(secret, { ...content, options: { a: 'x', b: 1 } })).toBe(key)
    const others = [
      deriveCallKey(new Uint8Array(32), content),
      deriveCallKey(secret, { ...content, operation: 'createSpeech' }),
      deriveCallKey(secret, { ...content, contentSha256: 'b'.repeat(64) }),
      deriveCallKey(secret, { ...content, options: { a: 'x' } }),
      deriveCallKey(secret, { ...content, occurrence: 1 }),
    ]
    expect(new Set([key, ...others]).size).toBe(6)
    expect(key).toMatch(/^[\w-]{43}$/)
  })

  it('canonical JSON has the same value and does not depend on the order of names', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        const reversed = Object.fromEntries(Object.entries(value).toReversed())
        expect(canonicalJson(reversed)).toBe(canonicalJson(value))
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })

  it('forms that differ only in their boundary have the same digest', async () => {
    expect(await digestOf('one')).toBe(await digestOf('one'))
    expect(await digestOf('one')).not.toBe(await digestOf('two'))
  })
})

describe('limits that are lowered while a call is signed', () => {
  it('hold for this call: its signature is not sent, and its reservation ends', async () => {
    let limits: BudgetLimits = { groups: { chat: { day: '1' } } }
    const { context, seen, journal } = composePayments([challenged(), charged('1000')], () => limits)
    const sign: typeof context.sign = async (...given) => {
      const payment = await context.sign(...given)
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
