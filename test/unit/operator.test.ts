import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { JobState } from '#shared/jobs/job.ts'
import type { LedgerDay } from '#shared/ledger/console/read-days.ts'
import { conditionsOf } from '#shared/ledger/console/select-calls.ts'
import type { LedgerTotals } from '#shared/ledger/reports/ledger-totals.ts'
import type { SettlementTotals } from '#shared/ledger/reports/reports-store.ts'
import { isEndOfBlock } from '#shared/operators/configuration.ts'
import type { PaymentRecord, SettlementRecord } from '#shared/operators/payment-record.ts'
import type { DeploymentReport, SeenProcess } from '#shared/operators/process-report.ts'
import { DAY_COLUMNS, dayCells } from '../../operator/pages/ledger/csv-rows.ts'
import { stateOf, totalOf, withResult } from '../../operator/pages/ledger/day-result.ts'
import { illDeployments, judgeMoney, judgePeople } from '../../operator/pages/now/conditions.ts'
import { timelineOf } from '../../operator/pages/payment/timeline.ts'
import { verdictOf } from '../../operator/pages/payment/verdict.ts'
import { FORMATS } from '../../operator/rendering/formats.ts'
import { createTemplates, TEMPLATES } from '../../operator/rendering/templates.ts'

function day(changes: Partial<LedgerDay> = {}): LedgerDay {
  return {
    day: '2026-03-01',
    charged: { count: 2, amount: 10_000n },
    settled: 10_000n,
    notFinal: 0,
    settlementGas: 460n,
    vendorCost: 1200n,
    uncharged: { count: 1, amount: 700n },
    resolved: [],
    ...changes,
  }
}
const render = (template: string, data: object = {}) => createTemplates().renderString(template, data)
/** Every template of the console, with its text. */
const files = (await readdir(TEMPLATES, { recursive: true })).filter((name) => name.endsWith('.eta'))
const templates = await Promise.all(
  files.map(async (name) => [name, await readFile(join(TEMPLATES, name), 'utf8')] as const),
)
const START = Date.parse('2026-03-01T10:00:00Z')
const at = (seconds: number) => new Date(START + seconds * 1000)
const NOW = at(3600)
function payment(changes: Partial<PaymentRecord> = {}): PaymentRecord {
  return {
    jobId: '0b7e6f0a-3c55-4f5e-8f5e-0123456789ab',
    requestId: 'request',
    operation: 'createTranscription',
    model: 'speechvendor/scribe-v2',
    state: 'completed',
    payer: `0x${'a1'.repeat(20)}`,
    quotedMaximum: 5034n,
    charge: 4000n,
    isOwed: false,
    failureCode: null,
    acceptedAt: at(0),
    finishedAt: at(9),
    idempotencyKey: 'a key',
    isKeyReleased: false,
    challengeExpiresAt: at(600),
    catalogVersion: 'catalog-1',
    usage: { input_audio_ms: 2000 },
    failureReason: null,
    isNewPayer: false,
    leasedUntil: null,
    deferrals: 0,
    deferredSince: null,
    dueAt: at(0),
    result: 'stored',
    resultExpiredAt: null,
    authorizations: [],
    attempts: [],
    settlements: [],
    receipt: null,
    media: [],
    upload: null,
    uncharged: [],
    unknownSettlements: [],
    resolutions: [],
    ...changes,
  }
}
function settlement(changes: Partial<SettlementRecord> = {}): SettlementRecord {
  return {
    id: 'settlement',
    state: 'confirmed',
    settledBy: 'own_key',
    network: 'eip155:8453',
    facilitator: `0x${'22'.repeat(20)}`,
    charge: 4000n,
    transaction: '0x02',
    blockNumber: 7n,
    signedAt: at(4),
    finishedAt: at(8),
    finalizedAt: at(800),
    failureReason: null,
    gasCost: 30n,
    transactions: [
      { hash: '0x01', sender: '0x22', accountNonce: 3n, signedAt: at(4) },
      { hash: '0x02', sender: '0x22', accountNonce: 3n, signedAt: at(6) },
    ],
    batch: null,
    ...changes,
  }
}
const chargeVerdict = (record: PaymentRecord) => verdictOf(record)[0]
const titles = (record: PaymentRecord) => timelineOf(record, NOW).map(({ title }) => title)
const NOTHING = { signed: 0, confirmed: 0, unproven: 0, lost: 0, surplus: 0, unknown: 0 }
const settlements = (counts: Partial<SettlementTotals['counts']>, oldestSignedAgeSeconds = 0): SettlementTotals => ({
  counts: { ...NOTHING, ...counts },
  oldestSignedAgeSeconds,
})
const worker = (deployments: Record<string, DeploymentReport>) => ({ report: { deployments } }) as SeenProcess
const inReview = (count: number) => ({ inReview: count }) as LedgerTotals
const { usdc, eth, count, counted, time, age, duration, milliseconds, idempotencyKey, short } = FORMATS

describe('the result of a day', () => {
  it('is what was settled less gas and vendors, and may be a loss', () => {
    expect(withResult(day())).toMatchObject({ gas: 460n, result: 8340n })
    expect(withResult(day({ settled: 0n })).result).toBe(-1660n)
  })

  it('leaves refunds out, which return money that is not among the settled charges', () => {
    const resolved = [{ outcome: 'refunded', count: 1, amount: 5000n }]
    expect(withResult(day({ resolved })).result).toBe(8340n)
    expect(totalOf([withResult(day({ resolved })), withResult(day())])).toMatchObject({
      result: 16_680n,
      vendorCost: 2400n,
      resolved: { count: 1, amount: 5000n },
    })
  })
})

describe('the state of a day', () => {
  it.each<[string, Partial<LedgerDay>, string]>([
    ['charges differ from settlements', { settled: 9999n }, 'bad'],
    ['charges differ, although some are not final', { settled: 9999n, notFinal: 1 }, 'bad'],
    ['a settlement is not final', { notFinal: 1 }, 'warning'],
    ['every charge is final', {}, 'good'],
    ['nothing was charged', { charged: { count: 0, amount: 0n }, settled: 0n }, 'neutral'],
  ])('when %s', (_, changes, tone) => {
    expect(stateOf(day(changes)).tone).toBe(tone)
  })
})

describe('the days of the ledger', () => {
  it('writes a cell for each column of a day, with six decimals', () => {
    const resolved = [{ outcome: 'written_off', count: 1, amount: 5034n }]
    const cells = dayCells(withResult(day({ settled: 12_345_678n, resolved })))
    expect(cells).toHaveLength(DAY_COLUMNS.length)
    expect(cells[DAY_COLUMNS.indexOf('settled_usdc')]).toBe('12.345678')
    expect(cells[DAY_COLUMNS.indexOf('written_off_usdc')]).toBe('0.005034')
    expect(dayCells(withResult(day({ settled: 0n })))[DAY_COLUMNS.indexOf('result_usdc')]).toBe('-0.001660')
  })
})

describe('a template of the console', () => {
  it('escapes what it prints, in text and in attributes', () => {
    const hostile = `<script>alert("1")</script>'\`&`
    const escaped = '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&#96;&amp;'
    expect(render('<p title="<%= it.text %>"><%= it.text %></p>', { text: hostile })).toBe(
      `<p title="${escaped}">${escaped}</p>`,
    )
  })

  it.each([
    '<%~ it.text %>',
    "<%~ include('@id', { id: it.text }) + it.text %>",
    '<%~ include(it.name) %>',
    "<%~ include('../../../etc/passwd') %>",
    '<% output(it.text) %>',
    '<% __eta.res += it.text %>',
  ])('does not compile with unescaped output: %s', (template) => {
    expect(() => render(template, { text: '<b>' })).toThrow(/unescaped output|writes by itself/)
  })

  it('throws for a value that is missing instead of printing "undefined"', () => {
    expect(() => render('<%= it.absent %>')).toThrow('a template prints a value of the type undefined')
    expect(() => render('<%= it.value %>', { value: {} })).toThrow('a template prints a value of the type object')
  })
})

describe.each(templates)('%s', (_name, text) => {
  it('compiles', () => {
    expect(() => createTemplates().compile(text)).not.toThrow()
  })

  it('has no inline style, script or handler, and quotes every attribute that prints a value', () => {
    const markup = text.replaceAll(/<%[^=~][^]*?%>/g, '').replaceAll(/<%[=~][^]*?%>/g, '{{}}')
    expect(markup).not.toMatch(/<script(?![^>]* src="\/operator\/assets\/)|<style|\sstyle=|\son[a-z]+=|javascript:/i)
    expect(markup).not.toMatch(/\s[\w-]+=\s*(?:\{\{|')/)
    expect(markup).not.toMatch(/https?:\/\//)
  })
})

describe('the timeline of a call', () => {
  it('begins with the challenge, and orders what happened by its time', () => {
    const record = payment({
      authorizations: [
        {
          id: 'authorization',
          network: 'eip155:8453',
          payTo: '0x11',
          authorizedMaximum: 5034n,
          deadline: at(600),
          claimedAt: at(0),
          hasPermit: true,
        },
      ],
      attempts: [
        { deployment: 'second', state: 'succeeded', reason: null, startedAt: at(2), finishedAt: at(3) },
        { deployment: 'first', state: 'failed_definite', reason: 'overloaded', startedAt: at(1), finishedAt: at(1.5) },
      ],
      settlements: [settlement()],
      receipt: { id: 'receipt', charge: 4000n, transaction: '0x02', settledAt: at(8), issuedAt: at(7.9) },
      media: [{ contentType: 'image/png', bytes: 10n, expiresAt: at(7200), deletedAt: null }],
    })
    expect(titles(record)).toEqual([
      'Challenge (402)',
      'Accepted with a payment',
      'Called first',
      'first did not work, without billable work',
      'Called second',
      'second answered: result and charge sealed',
      'Settlement transaction signed',
      'Replaced by another transaction',
      'Settlement confirmed',
      'Receipt issued',
      'Result released to its caller',
      'Its block is final',
      'Hosted image/png expires',
    ])
    const events = timelineOf(record, NOW)
    expect(events.find(({ title }) => title === 'Settlement confirmed')).toMatchObject({ transaction: '0x02' })
    expect(events.filter(({ isExpected }) => isExpected).map(({ title }) => title)).toEqual([
      'Hosted image/png expires',
    ])
  })

  it.each([
    ['by the same key', '0x22', 4n],
    ['by another key', '0x33', 3n],
  ])('tells a transaction that is signed again %s from one that replaces another', (_, sender, accountNonce) => {
    const transactions = [
      { hash: '0x01', sender: '0x22', accountNonce: 3n, signedAt: at(4) },
      { hash: '0x02', sender, accountNonce, signedAt: at(6) },
      { hash: '0x03', sender, accountNonce, signedAt: at(7) },
    ]
    const record = payment({ settlements: [settlement({ transactions })] })
    expect(titles(record).slice(1, 4)).toEqual([
      'Settlement transaction signed',
      'Signed again in another transaction',
      'Replaced by another transaction',
    ])
  })

  it('says that a settlement was requested when another one signs its transactions', () => {
    const remote = settlement({
      settledBy: 'remote_facilitator',
      transactions: [],
      state: 'signed',
      finishedAt: null,
      finalizedAt: null,
    })
    const record = payment({ state: 'settling', finishedAt: null, settlements: [remote] })
    expect(titles(record)).toEqual(['Challenge (402)', 'Settlement requested from the remote facilitator'])
  })

  it('shows who ended an item, with the transaction of the refund', () => {
    const record = payment({
      state: 'review',
      resolutions: [
        {
          id: 'resolution',
          item: 'review',
          jobId: null,
          outcome: 'refunded',
          amount: 4000n,
          reason: 'paid twice',
          operator: 'ada',
          resolvedAt: at(1000),
          refundTransaction: '0x99',
        },
      ],
    })
    expect(timelineOf(record, NOW).at(-1)).toMatchObject({
      title: 'ada ended the review: refunded',
      detail: 'paid twice',
      transaction: '0x99',
    })
  })
})

describe('what is known about the money', () => {
  it.each<[JobState, string, Partial<PaymentRecord>]>([
    ['accepted', 'Nothing is charged yet', {}],
    ['generating', 'Nothing is charged yet', {}],
    ['generated', 'no transaction has been signed', {}],
    ['settling', 'may be on its way', {}],
    ['completed', 'in a block that is final', { settlements: [settlement()] }],
    ['completed', 'not final yet', { settlements: [settlement({ finalizedAt: null })] }],
    [
      'completed',
      'a reorganization removed its charge',
      { settlements: [settlement({ state: 'lost', finalizedAt: null })] },
    ],
    ['completed', 'The charge is zero', { charge: 0n }],
    ['failed', 'Nothing was charged', {}],
    ['settlement_failed', 'refused until they pay', { isOwed: true }],
    ['settlement_failed', 'nothing is owed', {}],
    ['review', 'A person decides', {}],
  ])('says of a call that is %s: %s', (state, expected, changes) => {
    expect(chargeVerdict(payment({ state, ...changes }))?.sentence).toContain(expected)
  })

  it('does not call a lost charge good', () => {
    const lost = settlement({ state: 'lost', finalizedAt: null })
    expect(chargeVerdict(payment({ settlements: [lost] }))?.tone).toBe('bad')
  })

  it('says when the payer was charged besides', () => {
    const charged = verdictOf(payment({ settlements: [settlement(), settlement({ state: 'surplus' })] }))
    expect(charged.map(({ tone }) => tone)).toEqual(['good', 'bad'])
  })
})

describe('the start page', () => {
  it('says that money is stuck when a settlement waits for ten minutes', () => {
    expect(judgeMoney(settlements({}))).toEqual({ tone: 'good', sentence: 'No settlement waits.' })
    expect(judgeMoney(settlements({ signed: 2 }, 5)).tone).toBe('good')
    expect(judgeMoney(settlements({ signed: 2 }, 120)).tone).toBe('warning')
    expect(judgeMoney(settlements({ signed: 1 }, 600))).toEqual({
      tone: 'bad',
      sentence: 'Money is stuck: 1 settlement waits for confirmation, the oldest for 10 minutes.',
    })
  })

  it('names every kind of item that a person has to decide about', () => {
    expect(judgePeople(inReview(0), settlements({ signed: 3, confirmed: 4 })).tone).toBe('good')
    expect(judgePeople(inReview(1), settlements({ lost: 2, surplus: 3, unknown: 4 }))).toEqual({
      tone: 'bad',
      sentence:
        'A person has to decide: 1 in review, 2 lost after a reorganization, 3 charged twice, 4 settled without a record.',
    })
  })

  it('names the deployments that some worker does not call, with the worst that a worker sees', () => {
    const well: DeploymentReport = { circuit: 'closed', activeCalls: 0, isDrained: false, weight: 1 }
    expect(
      illDeployments([
        worker({ a: well, b: { ...well, circuit: 'half_open' }, c: { ...well, isDrained: true } }),
        worker({ a: well, b: { ...well, circuit: 'open' }, c: { ...well, isDrained: true } }),
        worker({ a: well, b: well }),
      ]),
    ).toEqual([
      { name: 'b', circuit: 'open', isDrained: false, workers: 2, ofWorkers: 3 },
      { name: 'c', circuit: 'closed', isDrained: true, workers: 2, ofWorkers: 2 },
    ])
  })
})

describe('formats of the console', () => {
  it('renders amounts with all decimals and thousands separators', () => {
    expect([0n, 5034n, 1_000_000n, 1_234_567_000_001n, -5n].map(usdc)).toEqual([
      '0.000000',
      '0.005034',
      '1.000000',
      '1,234,567.000001',
      '-0.000005',
    ])
    expect(eth(1_999_999_999_999_999_999n)).toBe('1.999999')
    expect([counted(1, 'call'), counted(2000, 'call')]).toEqual(['1 call', '2,000 calls'])
    expect([0, 999, 1000, 1_234_567n].map(count)).toEqual(['0', '999', '1,000', '1,234,567'])
  })

  it('renders moments in UTC, and how long ago they were', () => {
    const moment = new Date('2026-11-22T20:15:07.900Z')
    const after = (seconds: number) => new Date(moment.getTime() + seconds * 1000)
    expect(time(moment)).toBe('2026-11-22T20:15:07Z')
    expect([0, 59, 60, 7199, 86_400 * 3, -3600].map((seconds) => age(moment, after(seconds)))).toEqual([
      '0 s ago',
      '59 s ago',
      '1 min ago',
      '1 h ago',
      '3 d ago',
      'in 1 h',
    ])
    expect([0.2, 61].map(duration)).toEqual(['0 s', '1 min'])
    expect([87.4, 1250].map(milliseconds)).toEqual(['87 ms', '1.25 s'])
  })

  it('shows of an idempotency key its first characters and its length, and never all of it', () => {
    expect(idempotencyKey('0123456789abcdef')).toBe('012345… (16 characters)')
    expect(idempotencyKey('abc')).toBe('a… (3 characters)')
    expect(short('0x1234567890abcdef1234')).toBe('0x123456…1234')
  })
})

it('gives every combination of filters a statement of its own, by a name that PostgreSQL does not cut', () => {
  const criteria = { by: 'ended', code: 'c', model: 'm', deployment: 'd', payer: 'p', atLeast: 1n } as const
  const names = Object.keys(criteria) as (keyof typeof criteria)[]
  const combinations = Array.from({ length: 2 ** names.length }, (_, bits) =>
    Object.fromEntries(names.flatMap((name, index) => (bits & (1 << index) ? [[name, criteria[name]]] : []))),
  )
  const suffixes = combinations.map((chosen) => conditionsOf({ ...chosen, state: 'settlement_failed' }).suffix)
  expect(new Set(suffixes).size).toBe(combinations.length)
  expect(Math.max(...suffixes.map((suffix) => `export_console_calls_first${suffix}_back`.length))).toBeLessThan(63)
})

it('a block ends later than now, in a year that every reader understands', () => {
  const ends = ['2020-01-01T00:00:00Z', '9999-12-31T00:00:00Z', '+010000-01-01T00:00:00Z'].map((end) => new Date(end))
  expect(ends.map(isEndOfBlock)).toEqual([false, true, false])
})
