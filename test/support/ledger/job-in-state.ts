import { randomBytes, randomUUID } from 'node:crypto'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { JobState, LeasedJob, NewResult, Written } from '#shared/jobs/job.ts'
import type { NewJob } from '#shared/ledger/acceptance/acceptance.ts'
import { LEASED_JOB, type LeasedJobRow, leasedJobFromRow } from '#shared/ledger/execution/leases.ts'
import { readFirst } from '#shared/ledger/read-rows.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import { buildReceipt } from '../../../workers/settlement/finish-settlement.ts'
import { newTestJob, TEST_PRICE } from './new-test-job.ts'
import { NETWORK } from './test-authorization.ts'
import { newTestBatch, recordingOf, signRandomBytes } from './test-batch.ts'
import type { TestLedger } from './test-ledger.ts'

/** A deployment as an attempt records it. */
export const called = (name: string) => ({ name, vendor: 'elevenlabs', upstreamModel: 'scribe_v2' })

type Completion = Parameters<SettlementStore['completeJob']>[1]

const LEASE_MS = 60_000

/**
 * Creates a job and moves it to `state` by the stores' own transitions. Returns it as claimed by the worker that moved
 * it.
 */
export async function jobInState(ledger: TestLedger, state: JobState, request = newTestJob()): Promise<LeasedJob> {
  return await moveToState(ledger, await claimTestJob(ledger, await acceptTestJob(ledger, request)), state)
}

/** Moves an accepted job to `state` by the stores' own transitions. */
export async function moveToState(ledger: TestLedger, accepted: LeasedJob, state: JobState): Promise<LeasedJob> {
  let job = accepted
  for (const write of WRITES_TO[state]) {
    const written = await fencedWrites[write].run(ledger, job)
    if (written !== 'written') throw new Error(`${write} was ${written}`)
    job = await rereadJob(ledger, job)
  }
  return job
}

/** Binds the key, as the unpaid request does. */
export function bindTestKey(ledger: TestLedger, job: NewJob, lifetimeSeconds = 600) {
  const { idempotencyKey, requestDigest, quote } = job
  return ledger.acceptance.bindKey({ idempotencyKey, requestDigest, quote, lifetimeSeconds })
}

/** Binds the key and accepts the job. Returns its id. */
export async function acceptTestJob(ledger: TestLedger, job: NewJob = newTestJob()): Promise<string> {
  await bindTestKey(ledger, job)
  const acceptance = await ledger.acceptance.acceptPayment(job)
  if (acceptance.outcome !== 'accepted') throw new Error(`not accepted: ${acceptance.outcome}`)
  return acceptance.jobId
}

export async function claimTestJob(ledger: TestLedger, jobId: string, leaseMs = LEASE_MS): Promise<LeasedJob> {
  const job = await ledger.execution.leaseJob(jobId, leaseMs)
  if (!job) throw new Error(`job ${jobId} cannot be claimed`)
  return job
}

/** Returns the job with its current columns; a finished job is returned as it was. */
export async function rereadJob(ledger: TestLedger, job: LeasedJob): Promise<LeasedJob> {
  const row = await readFirst<LeasedJobRow>(ledger.pool, {
    name: 'reread_job',
    text: `SELECT ${LEASED_JOB}, 0 AS "waitedMs", 0 AS "deferredMs", 0 AS "paymentBlockedMs"
     FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
     WHERE jobs.id = $1 AND state IN ('accepted', 'generating', 'generated', 'settling')`,
    values: [job.id],
  })
  return row ? leasedJobFromRow(row) : job
}

/** Returns a job's stored state and fence. */
export async function storedState(ledger: TestLedger, jobId: string): Promise<{ state: JobState; fence: string }> {
  const [row] = await ledger.sql<{ state: JobState; fence: string }>('SELECT state, fence FROM jobs WHERE id = $1', [
    jobId,
  ])
  if (!row) throw new Error(`no job ${jobId}`)
  return row
}

/** Returns the input of `completeJob` for a job, whether or not it may complete. The settlement is in block 7. */
export async function completionOf(ledger: TestLedger, job: LeasedJob): Promise<Completion> {
  const [settlement] = await ledger.sql<{ id: string }>('SELECT id FROM settlements WHERE authorization_id = $1', [
    job.authorizationId,
  ])
  const transactionHash = `0x${randomBytes(32).toString('hex')}`
  const settledAt = new Date()
  return {
    settlementId: settlement?.id ?? randomUUID(),
    transactionHash,
    blockNumber: 7n,
    blockHash: `0x${randomBytes(32).toString('hex')}`,
    receipt: buildReceipt(job, job.sealed ?? sealedResult(), {
      hash: transactionHash,
      blockNumber: 7n,
      settledAt,
      issuedAt: settledAt,
    }),
    receiptSecretId: 'first',
    paymentResponse: {
      success: true,
      transaction: transactionHash,
      network: NETWORK,
      payer: job.authorization.payer,
      amount: TEST_PRICE.toString(),
    },
  }
}

function sealedResult(): NewResult {
  const resultBody = JSON.stringify({ text: 'one canary', id: randomUUID() })
  return {
    usage: { input_audio_ms: 2000 },
    chargeAmount: TEST_PRICE,
    resultBody,
    resultDigest: sha256Hex(resultBody),
  }
}

/** Returns the ids of a job's earlier settlements, as if each had been looked up on chain. */
async function lookUpEarlier(settlement: SettlementStore, job: LeasedJob): Promise<readonly string[]> {
  return (await settlement.readEarlierSettlements(job)).map(({ settlementId }) => settlementId)
}

/** The worker's transitions, each with the state it leads to. `run` returns the store's answer. */
export const fencedWrites = {
  startAttempt: {
    to: 'generating',
    run: async (ledger, job) => {
      const [open] = await ledger.sql<{ id: string }>(
        "SELECT id FROM upstream_attempts WHERE job_id = $1 AND state = 'open'",
        [job.id],
      )
      const failed = open ? { attemptId: open.id, reason: 'test' } : null
      return (await ledger.execution.startAttempt(job, called('elevenlabs'), failed)).written
    },
  },
  sealResult: {
    to: 'generated',
    run: async (ledger, job) => {
      const [attempt] = await ledger.sql<{ id: string }>('SELECT id FROM upstream_attempts WHERE job_id = $1', [job.id])
      return await ledger.execution.sealResult(job, attempt?.id ?? randomUUID(), sealedResult(), null)
    },
  },
  failJob: {
    to: 'failed',
    run: ({ execution }, job) =>
      execution.failJob(job, { code: 'provider_unavailable', reason: 'test', attempt: 'failed_definite' }),
  },
  recordSettlement: {
    to: 'settling',
    run: async ({ settlement }, job) => {
      const lookedUp = await lookUpEarlier(settlement, job)
      for (;;) {
        // All earlier ones are mined.
        const minimumAccountNonce = (await settlement.readNextAccountNonce(job.authorization)) ?? 0n
        const terms = { chargeAmount: TEST_PRICE, minimumAccountNonce, sign: signRandomBytes, lookedUp }
        const outcome = await settlement.recordSettlement(job, terms)
        if (outcome !== 'queue_full') return typeof outcome === 'string' ? 'stale' : 'written'
      }
    },
  },
  recordBatch: {
    to: 'settling',
    run: async ({ settlement }, job) => {
      const recording = recordingOf(job, await lookUpEarlier(settlement, job))
      const [outcome] = await settlement.recordBatch([recording], newTestBatch())
      if (outcome instanceof Error) throw outcome
      return typeof outcome === 'string' ? 'stale' : 'written'
    },
  },
  completeJob: {
    to: 'completed',
    run: async (ledger, job) => await ledger.settlement.completeJob(job, await completionOf(ledger, job)),
  },
  failSettlement: {
    to: 'settlement_failed',
    run: ({ settlement }, job) => settlement.failSettlement(job, { code: 'settlement_failed', reason: 'test' }),
  },
  markForReview: { to: 'review', run: ({ settlement }, job) => settlement.markForReview(job, 'test') },
} as const satisfies Record<string, { to: JobState; run: (ledger: TestLedger, job: LeasedJob) => Promise<Written> }>

export type FencedWrite = keyof typeof fencedWrites

const WRITES_TO: Record<JobState, readonly FencedWrite[]> = {
  accepted: [],
  generating: ['startAttempt'],
  generated: ['startAttempt', 'sealResult'],
  settling: ['startAttempt', 'sealResult', 'recordSettlement'],
  completed: ['startAttempt', 'sealResult', 'recordSettlement', 'completeJob'],
  failed: ['startAttempt', 'failJob'],
  settlement_failed: ['startAttempt', 'sealResult', 'recordSettlement', 'failSettlement'],
  review: ['startAttempt', 'sealResult', 'recordSettlement', 'markForReview'],
}
