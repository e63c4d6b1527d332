import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { CallerAnswer, JobEntry, Ledgers } from './ledgers.ts'

const MARKER = 'call-00000000-0000-4000-8000-000000000001'
const BODY = JSON.stringify({
  data: [{ url: 'http://api/media/token' }],
  note: 'a result that is long enough to recognize',
})
const AUDIO_SHA256 = sha256Hex('audio')
export const PAYER = '0xpayer'
export const KEY = '0xkey'

export const released: CallerAnswer = {
  receivedAt: 5000,
  status: 200,
  code: null,
  bodySha256: sha256Hex(BODY),
  bodyText: BODY,
  receiptId: 'receipt',
  transaction: '0xtransaction',
  amount: '700',
  wasMined: true,
}

const completed: JobEntry = {
  id: 'job',
  idempotencyKey: 'key',
  state: 'completed',
  payer: PAYER,
  authorizationId: 'authorization',
  stagedUploadId: 'upload',
  quotedMaximum: 1000n,
  chargeAmount: 700n,
  resultBody: BODY,
  resultDigest: sha256Hex(BODY),
  receiptId: 'receipt',
  failureCode: null,
  failureReason: null,
}

/** One successful call of one client. */
export const sound = {
  chain: {
    transfers: [{ transactionHash: '0xtransaction', from: PAYER, amount: 700n, nonce: null }],
    batches: [],
    recipientBalance: 700n,
    keys: [{ address: KEY, minedCount: 1, pendingCount: 1 }],
    reorganizedAt: [],
  },
  upstream: [{ id: '1', arrivedAt: 2000, route: '/v1/images', started: true, status: 200, marker: MARKER }],
  database: {
    jobs: [completed],
    authorizations: [
      { id: 'authorization', jobId: 'job', payer: PAYER, nonce: '1', permitNonce: null, authorizedMaximum: 1000n },
    ],
    attempts: [
      {
        id: 'attempt',
        jobId: 'job',
        authorizationId: 'authorization',
        state: 'succeeded',
        startedAt: 1999,
      },
    ],
    settlements: [
      {
        id: 'settlement',
        jobId: 'job',
        authorizationId: 'authorization',
        payer: PAYER,
        nonce: '1',
        facilitator: KEY,
        accountNonce: 0,
        batchId: null,
        batchesLeft: 0,
        gasUsed: 90_000n,
        chargeAmount: 700n,
        state: 'confirmed',
        transactionHash: '0xtransaction',
        finishedAt: 4900,
        hashes: ['0xtransaction', '0xreplaced'],
      },
    ],
    receipts: [
      {
        id: 'receipt',
        jobId: 'job',
        chargeAtomic: '700',
        transaction: '0xtransaction',
        resultDigest: sha256Hex(BODY),
      },
    ],
    media: [{ jobId: 'job', objectKey: 'media/1', sha256: AUDIO_SHA256 }],
    stagedUploads: [
      {
        id: 'upload',
        jobId: 'job',
        objectKey: 'staged/1',
        hasDataKey: false,
        isPastExpiry: false,
        erasedForMs: 60_000,
      },
    ],
    nextAccountNonces: { [KEY]: 1 },
  },
  objects: [{ key: 'media/1', sha256: AUDIO_SHA256, ageMs: 60_000, holdsPlaintext: false }],
  clients: {
    calls: [
      {
        callId: 'call',
        idempotencyKey: 'key',
        path: '/v1/images/generations',
        marker: MARKER,
        payer: PAYER,
        answers: [released],
        nonces: ['1'],
        problems: [],
        outcome: 'released',
        unpayableSince: null,
        hindersSettlement: false,
      },
    ],
    replays: [{ callId: 'call', answer: released, media: [{ url: 'http://api/media/token', sha256: AUDIO_SHA256 }] }],
  },
} satisfies Ledgers
