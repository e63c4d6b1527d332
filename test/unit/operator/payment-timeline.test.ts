import { describe, expect, it } from 'vitest'
import type { JobState } from '#shared/jobs/job.ts'
import type { PaymentRecord, SettlementRecord } from '#shared/operators/payment-record.ts'
import { timelineOf } from '../../../operator/pages/payment/timeline.ts'
import { verdictOf } from '../../../operator/pages/payment/verdict.ts'

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
