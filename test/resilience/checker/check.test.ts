import { expect, test } from 'vitest'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { check } from './check.ts'
import type { JobEntry, Ledgers } from './ledgers.ts'
import { KEY, PAYER, released, sound } from './sound-ledgers.ts'

const OTHER_MARKER = 'call-00000000-0000-4000-8000-000000000002'

type Change = (ledgers: Mutable<Ledgers>) => void
type Mutable<T> = T extends bigint | string | number | boolean | null
  ? T
  : { -readonly [Key in keyof T]: Mutable<T[Key]> }

function violationsOf(change: Change): string[] {
  const ledgers = structuredClone<Ledgers>(sound) as Mutable<Ledgers>
  change(ledgers)
  return check(ledgers as Ledgers).map(({ invariant, detail }) => `${invariant}: ${detail}`)
}

/** Returns the first entry of a list that is never empty here. */
function first<T>([one]: readonly T[]): T {
  if (one === undefined) throw new Error('the list is empty')
  return one
}

const unpaid = ({ chain, database, clients }: Mutable<Ledgers>, state: JobEntry['state']) => {
  chain.transfers = []
  chain.recipientBalance = 0n
  Object.assign(first(database.jobs), { state, receiptId: null })
  Object.assign(first(database.settlements), { state: 'reverted', transactionHash: null })
  database.receipts = []
  Object.assign(first(clients.calls), { answers: [], outcome: 'refused' })
  clients.replays = []
}

test('consistent ledgers have no violation', () => {
  expect(check(sound)).toEqual([])
})

test.each<[reported: string, change: Change]>([
  [
    'I1: 0xforeign is not a settlement in the ledger',
    ({ chain }) => (first(chain.transfers).transactionHash = '0xforeign'),
  ],
  ['I1: 800 was transferred for a charge of 700', ({ chain }) => (first(chain.transfers).amount = 800n)],
  ['I1: 2000 is more than the quoted 1000', ({ chain }) => (first(chain.transfers).amount = 2000n)],
  ['I1: 0xother paid for a job of 0xpayer', ({ chain }) => (first(chain.transfers).from = '0xother')],
  [
    'I1: 2 transfers',
    ({ chain }) => chain.transfers.push({ transactionHash: '0xreplaced', from: PAYER, amount: 700n, nonce: null }),
  ],
  [
    'I1: 2 open settlements',
    ({ database }) => database.settlements.push({ ...first(database.settlements), id: 'second', hashes: ['0xsecond'] }),
  ],
  [
    'I1: 2 settlements of one payment',
    ({ database }) =>
      database.settlements.push({ ...first(database.settlements), id: 'second', state: 'reverted', hashes: [] }),
  ],
  [
    'I1: one of two jobs under one key',
    ({ database }) => database.jobs.push({ ...first(database.jobs), id: 'second' }),
  ],
  [
    'I1: its payment was also claimed for other',
    ({ database }) => database.authorizations.unshift({ ...first(database.authorizations), id: '2', jobId: 'other' }),
  ],
  [
    'I1: the recipient holds 701, transfers are 700, completed charges 700',
    ({ chain }) => (chain.recipientBalance = 701n),
  ],
  [
    'I1: the receipt states another charge or result than the job',
    ({ database }) => (first(database.receipts).chargeAtomic = '1'),
  ],
  [
    'I1: the receipt names another transaction than the settlement',
    ({ database }) => (first(database.receipts).transaction = '0xreplaced'),
  ],
  ['I2: a charge without a stored result', ({ database }) => (first(database.jobs).resultBody = null)],
  ['I2: the stored result does not match its digest', ({ database }) => (first(database.jobs).resultBody = '{}')],
  [
    'I2: a charge without a stored result',
    (ledgers) => {
      unpaid(ledgers, 'failed')
      first(ledgers.database.settlements).state = 'signed'
      first(ledgers.database.jobs).resultBody = null
    },
  ],
  ['I3: call 1 of /v1/images belongs to no call', ({ upstream }) => (first(upstream).marker = null)],
  [
    'I3: the provider was called for call, which has no job',
    ({ database }) => (first(database.jobs).idempotencyKey = 'other'),
  ],
  ['I3: call 1 was made before its attempt was recorded', ({ database }) => (database.attempts = [])],
  [
    'I3: call 1 was made before its attempt was recorded',
    ({ database }) => (first(database.attempts).startedAt = 2001),
  ],
  [
    'I3: call 2 was made before its attempt was recorded',
    ({ upstream }) => upstream.push({ ...first(upstream), id: '2', arrivedAt: 2100, started: false, status: 429 }),
  ],
  [
    'I3: 2 calls that may be billed for 1 payments',
    ({ upstream, database }) => {
      upstream.push({ ...first(upstream), id: '2', arrivedAt: 2100, status: null })
      database.attempts.push({ ...first(database.attempts), id: '2', state: 'failed_definite', startedAt: 2099 })
    },
  ],
  [
    'I3: call 1 was made when no payment could be settled',
    ({ clients }) => (first(clients.calls).unpayableSince = 2000 - 20_001),
  ],
  [
    'I3: one payment for two attempts that may be billed',
    ({ database }) => database.attempts.push({ ...first(database.attempts), id: '2', state: 'failed_ambiguous' }),
  ],
  ['I3: an attempt is open although its job has ended', ({ database }) => (first(database.attempts).state = 'open')],
  [
    'I4: completed, but its charge is not on chain',
    ({ database }) => (first(database.settlements).transactionHash = '0xreplaced'),
  ],
  [
    'I4: released for 0xelsewhere, which transferred nothing',
    ({ clients }) => (first(first(clients.calls).answers).transaction = '0xelsewhere'),
  ],
  [
    'I4: released before its settlement was mined',
    ({ clients }) => (first(first(clients.calls).answers).wasMined = false),
  ],
  ['I4: released for 1, but 700 was transferred', ({ clients }) => (first(first(clients.calls).answers).amount = '1')],
  [
    'I4: released without a PAYMENT-RESPONSE',
    ({ clients }) => (first(first(clients.calls).answers).transaction = null),
  ],
  ['I4: the result of 0xpayer went to 0xstranger', ({ clients }) => (first(clients.calls).payer = '0xstranger')],
  [
    'I4: released while the job ended as settlement_failed',
    ({ database }) => (first(database.jobs).state = 'settlement_failed'),
  ],
  [
    'I4: the released result is not the stored one',
    ({ clients }) => (first(first(clients.calls).answers).bodySha256 = sha256Hex('other')),
  ],
  [
    'I4: released with another receipt than the stored one',
    ({ clients }) => (first(first(clients.calls).answers).receiptId = 'other'),
  ],
  [
    'I4: a withheld result (settlement_failed) was released',
    (ledgers) => {
      unpaid(ledgers, 'settlement_failed')
      const bodyText = `{"error":"it was: a result that is long enough to recognize"}`
      first(ledgers.clients.calls).answers = [{ ...released, status: 402, bodyText, bodySha256: sha256Hex(bodyText) }]
    },
  ],
  ['I5: charged by 0xtransaction, but failed', ({ database }) => (first(database.jobs).state = 'failed')],
  ['I5: completed without a receipt', ({ database }) => (database.receipts = [])],
  ['I5: call was charged but could not be replayed', ({ clients }) => (first(clients.replays).answer = null)],
  [
    'I5: a replay got 503 storage_unavailable',
    ({ clients }) => (first(clients.replays).answer = { ...released, status: 503, code: 'storage_unavailable' }),
  ],
  [
    'I5: a replay had another receipt',
    ({ clients }) => (first(clients.replays).answer = { ...released, receiptId: 'other' }),
  ],
  [
    'I5: a replay had other bytes',
    ({ clients }) => (first(clients.replays).answer = { ...released, bodySha256: sha256Hex('other') }),
  ],
  [
    'I5: call got two different results',
    ({ clients }) => first(clients.calls).answers.push({ ...released, receiptId: 'other' }),
  ],
  [
    'I5: its media http://api/media/token differ from what was stored',
    ({ clients }) => (first(first(clients.replays).media).sha256 = null),
  ],
  ['I5: its result references no media', ({ clients }) => (first(clients.replays).media = [])],
  ['I5: its stored media are missing or changed', ({ objects }) => (first(objects).sha256 = sha256Hex('other'))],
  [
    'I6: an upload is readable although its job is completed',
    ({ database }) => Object.assign(first(database.stagedUploads), { hasDataKey: true, erasedForMs: null }),
  ],
  [
    'I6: an upload is readable after its hour',
    ({ database }) =>
      Object.assign(first(database.stagedUploads), { hasDataKey: true, erasedForMs: null, isPastExpiry: true }),
  ],
  [
    'I6: the object of an upload erased 60000 ms ago still exists',
    ({ objects }) => objects.push({ ...first(objects), key: 'staged/1' }),
  ],
  ['I6: media/1 contains a client’s audio in plain', ({ objects }) => (first(objects).holdsPlaintext = true)],
  ['liveness: the job is still settling', ({ database }) => (first(database.jobs).state = 'settling')],
  ['liveness: the client of call has no terminal answer', ({ clients }) => (first(clients.calls).outcome = 'gave_up')],
  ['liveness: call ended as released without a result', ({ clients }) => (first(clients.calls).answers = [])],
  ['nonce-gap: 0xkey: 1 transactions are not mined yet', ({ chain }) => (first(chain.keys).pendingCount = 2)],
  [
    'nonce-gap: 0xkey: nonces up to 2 were taken and 1 transactions mined',
    ({ database }) => (database.nextAccountNonces[KEY] = 2),
  ],
])('the checker reports %s', (reported, change) => {
  expect(violationsOf(change)).toContain(reported)
})

/** A reorganization replaced the transaction that the receipt names by another with the same nonce. */
const replacedAt =
  (reorganizedAt: number): Change =>
  ({ chain, database }) => {
    chain.reorganizedAt = [reorganizedAt]
    first(chain.transfers).transactionHash = '0xreplaced'
    first(database.settlements).transactionHash = '0xreplaced'
  }

test('a receipt may name a transaction that a later reorganization replaced, and no other', () => {
  expect(violationsOf(replacedAt(5500))).toEqual([])
  const earlier = violationsOf(replacedAt(4900 - 60_001))
  expect(earlier).toContain('I1: the receipt names another transaction than the settlement')
  expect(earlier).toContain('I4: released for 0xtransaction, which transferred nothing')
  const other = violationsOf((ledgers) => {
    replacedAt(5500)(ledgers)
    first(ledgers.database.receipts).transaction = '0xelsewhere'
  })
  expect(other).toContain('I1: the receipt names another transaction than the settlement')
})

const both =
  (one: Change, other: Change): Change =>
  (ledgers) => {
    one(ledgers)
    other(ledgers)
  }

/** A reorganization removed the settlement permanently. */
const lostAt =
  (reorganizedAt: number, state = 'lost'): Change =>
  ({ chain, database }) => {
    Object.assign(chain, { reorganizedAt: [reorganizedAt], transfers: [], recipientBalance: 0n })
    first(database.settlements).state = state
  }

const preventedByPayer: Change = ({ clients }) => (first(clients.calls).hindersSettlement = true)
/** The payer signed the permit again that the reorganization took back. */
const permitSignedAgain: Change = ({ database }) => {
  const [authorization] = database.authorizations
  const permitNonce = '4'
  Object.assign(first(database.authorizations), { permitNonce })
  Object.assign(database, {
    authorizations: [
      ...database.authorizations,
      { ...authorization, id: 'other', jobId: 'other', nonce: '2', permitNonce },
    ],
  })
}
const reorganizedAfter: Change = ({ chain }) => Object.assign(chain, { reorganizedAt: [5500] })

test('a settlement that a reorganization removed is no violation while its payer prevents it, if it is missing', () => {
  expect(violationsOf(both(lostAt(5500, 'confirmed'), preventedByPayer))).toEqual([])
  expect(violationsOf(both(reorganizedAfter, preventedByPayer))).toEqual([])
  expect(violationsOf(both(lostAt(5500, 'confirmed'), permitSignedAgain))).toEqual([])
  expect(violationsOf(both(lostAt(4900 - 60_001, 'confirmed'), preventedByPayer))).toContain(
    'I4: completed, but its charge is not on chain',
  )
})

test('a settlement missing on chain is a violation, unless the ledger calls it lost to a later reorganization', () => {
  expect(violationsOf(lostAt(5500))).toEqual([])
  for (const change of [lostAt(4900 - 60_001), lostAt(5500, 'confirmed')]) {
    const violations = violationsOf(change)
    expect(violations).toContain('I4: completed, but its charge is not on chain')
    expect(violations).toContain('I4: released for 0xtransaction, which transferred nothing')
    expect(violations.filter((text) => text.startsWith('I1: the recipient holds'))).toHaveLength(1)
  }
})

test('neither a definite failure before a success nor a withheld result is a violation', () => {
  expect(
    violationsOf(({ upstream, database }) => {
      upstream.unshift({ ...first(upstream), id: '0', arrivedAt: 1900, started: true, status: 503 })
      database.attempts.unshift({ ...first(database.attempts), id: '0', state: 'failed_definite', startedAt: 1899 })
    }),
  ).toEqual([])
  expect(violationsOf((ledgers) => unpaid(ledgers, 'settlement_failed'))).toEqual([])
})

test('a challenge that names the model of a withheld result releases nothing of it', () => {
  const model = 'a-model-with-a-name-of-some-length'
  expect(
    violationsOf((ledgers) => {
      unpaid(ledgers, 'settlement_failed')
      const resultBody = JSON.stringify({ model, text: 'a result that is long enough to recognize' })
      Object.assign(first(ledgers.database.jobs), { resultBody, resultDigest: sha256Hex(resultBody) })
      const bodyText = JSON.stringify({ error: `Sign the challenge for ${model}.` })
      first(ledgers.clients.calls).answers = [{ ...released, status: 402, bodyText, bodySha256: sha256Hex(bodyText) }]
    }),
  ).toEqual([])
})

test('the upload of an ambiguous failure may stay until its hour has passed', () => {
  expect(
    violationsOf((ledgers) => {
      unpaid(ledgers, 'failed')
      Object.assign(first(ledgers.database.jobs), { resultBody: null, resultDigest: null })
      ledgers.database.settlements = []
      ledgers.database.nextAccountNonces = {}
      Object.assign(first(ledgers.chain.keys), { minedCount: 0, pendingCount: 0 })
      first(ledgers.database.attempts).state = 'failed_ambiguous'
      Object.assign(first(ledgers.database.stagedUploads), { hasDataKey: true, erasedForMs: null })
    }),
  ).toEqual([])
})

/** The call of `sound`, in a batch with another one of the same payer, with an equal charge. */
function inBatch(change: Change = () => undefined): string[] {
  return violationsOf((ledgers) => {
    const { chain, database, clients } = ledgers
    const [transfer, job, authorization, settlement, receipt, attempt, call] = [
      first(chain.transfers),
      first(database.jobs),
      first(database.authorizations),
      first(database.settlements),
      first(database.receipts),
      first(database.attempts),
      first(clients.calls),
    ]
    chain.transfers = [
      { ...transfer, nonce: '1' },
      { ...transfer, nonce: '2' },
    ]
    chain.recipientBalance = 1400n
    const reported = { payer: PAYER, isSettled: true }
    const payments = [
      { ...reported, nonce: '1' },
      { ...reported, nonce: '2' },
    ]
    chain.batches = [{ transactionHash: '0xtransaction', isReverted: false, gasUsed: 150_000n, payments }]
    const batched = { ...settlement, batchId: 'batch', gasUsed: 75_000n }
    const other = { jobId: 'job-2', authorizationId: 'authorization-2' }
    database.jobs = [
      job,
      {
        ...job,
        id: 'job-2',
        idempotencyKey: 'key-2',
        authorizationId: 'authorization-2',
        receiptId: 'receipt-2',
        stagedUploadId: null,
      },
    ]
    database.authorizations = [authorization, { ...authorization, id: 'authorization-2', jobId: 'job-2', nonce: '2' }]
    database.settlements = [batched, { ...batched, ...other, id: 'settlement-2', nonce: '2' }]
    database.receipts = [receipt, { ...receipt, id: 'receipt-2', jobId: 'job-2' }]
    database.attempts = [attempt, { ...attempt, ...other, id: 'attempt-2' }]
    ledgers.upstream.push({ ...first(ledgers.upstream), id: '2', marker: OTHER_MARKER })
    const answer = { ...released, receiptId: 'receipt-2' }
    clients.calls = [
      call,
      { ...call, callId: 'call-2', idempotencyKey: 'key-2', marker: OTHER_MARKER, nonces: ['2'], answers: [answer] },
    ]
    clients.replays.push({ callId: 'call-2', answer, media: [] })
    change(ledgers)
  })
}

const secondFails = ({ chain, database, clients }: Mutable<Ledgers>) => {
  chain.transfers.length = 1
  chain.recipientBalance = 700n
  Object.assign(first(chain.batches).payments[1] ?? {}, { isSettled: false })
  Object.assign(database.jobs[1] ?? {}, {
    state: 'settlement_failed',
    receiptId: null,
    failureReason: 'reverted in block 3',
  })
  Object.assign(database.settlements[1] ?? {}, { state: 'reverted', transactionHash: null, hashes: ['0xtransaction'] })
  database.receipts.length = 1
  Object.assign(clients.calls[1] ?? {}, { answers: [], outcome: 'refused' })
  clients.replays.length = 1
}

test('two payments of one payer in one batch, with equal amounts, are no violation', () => {
  expect(inBatch()).toEqual([])
  expect(inBatch(secondFails)).toEqual([])
})

test.each<[string, Change]>([
  [
    'I4: completed, but its charge is not on chain',
    (ledgers) => {
      // Its equal neighbor must not prove it.
      ledgers.chain.transfers.length = 1
      ledgers.chain.recipientBalance = 700n
      Object.assign(first(ledgers.chain.batches).payments[1] ?? {}, { isSettled: false })
    },
  ],
  [
    'I4: released for 0xtransaction, which transferred nothing',
    (ledgers) => {
      ledgers.chain.transfers.length = 1
      ledgers.chain.recipientBalance = 700n
    },
  ],
  [
    'I1: 0xtransaction, payment 2, is not a settlement in the ledger',
    ({ database }) => Object.assign(database.settlements[1] ?? {}, { nonce: '3' }),
  ],
  [
    'I1: 0xtransaction has a payment 2 of 0xpayer that is not a settlement in the ledger',
    ({ database }) => Object.assign(database.settlements[1] ?? {}, { nonce: '3' }),
  ],
  [
    'gas: 0xtransaction used 150000 gas, and its 2 settlements 300000',
    ({ database }) => database.settlements.forEach((settlement) => (settlement.gasUsed = 150_000n)),
  ],
  [
    'gas: 0xtransaction used 150000 gas, and its 2 settlements 149999',
    ({ database }) => (first(database.settlements).gasUsed = 74_999n),
  ],
  [
    'blame: settlement-2 failed, but the contract reports no failure of its payment',
    (ledgers) => {
      secondFails(ledgers)
      first(ledgers.chain.batches).payments.length = 1
    },
  ],
])('reports of a batch: %s', (expected, change) => {
  expect(inBatch(change)).toContain(expected)
})
