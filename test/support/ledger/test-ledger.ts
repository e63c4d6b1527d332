import { randomBytes, randomUUID } from 'node:crypto'
import type pg from 'pg'
import { CLAIMED_JOB, type ClaimedJobRow, claimedJobFromRow } from '#shared/adapters/postgres/execution/job-row.ts'
import { createPool, type Pool } from '#shared/adapters/postgres/pool.ts'
import { createAdmissionStore, createExecutionStore } from '#shared/adapters/postgres/stores.ts'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { ClaimedJob, JobState, SealedResult } from '#shared/jobs/job.ts'
import type { AdmissionStore, ExecutionStore, ExposureTerms, NewJob } from '#shared/jobs/job-store.ts'
import { newStagedUpload, type StagedUpload } from '#shared/media/staged-upload.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { EffectiveTranscription, TranscriptionTerms } from '#shared/operations/transcriptions.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { buildReceipt } from '../../../workers/settlement/build-receipt.ts'
import { createTestDatabase, type TestDatabase } from './test-database.ts'

type Hex = `0x${string}`
type Completion = Parameters<ExecutionStore['completeJob']>[1]

const NETWORK = 'eip155:8453'
const TERMS: TranscriptionTerms = {
  price_per_audio_hour_usd: '0.122',
  minimum_charge_usd: '0.005034',
  maximum_charge_usd: '0.122',
}
const LEASE_MS = 60_000

/** The ledger over a database of its own, with both sides' stores and plain SQL beside them. */
export interface TestLedger {
  readonly url: string
  readonly pool: Pool
  readonly admission: AdmissionStore
  readonly execution: ExecutionStore
  sql<Row extends pg.QueryResultRow>(statement: string, parameters?: readonly unknown[]): Promise<Row[]>
  /** Changes when any row of any of the ledger's tables changes. */
  fingerprint(): Promise<string>
  close(): Promise<void>
}

/** `maximumConnections` is how many statements can really race. */
export async function createTestLedger(maximumConnections = 24): Promise<TestLedger> {
  return openTestLedger(await createTestDatabase(), maximumConnections)
}

/** The same over a database that exists; `close` drops it. */
export function openTestLedger(database: TestDatabase, maximumConnections: number): TestLedger {
  const pool = createPool({
    connectionString: database.url,
    maximumConnections,
    applicationName: 'farebox ledger test',
    onError: () => undefined,
  })
  const sql = async <Row extends pg.QueryResultRow>(statement: string, parameters: readonly unknown[] = []) =>
    (await pool.query<Row>(statement, [...parameters])).rows
  return {
    url: database.url,
    pool,
    admission: createAdmissionStore(pool),
    execution: createExecutionStore(pool),
    sql,
    fingerprint: () => fingerprint(sql),
    close: async () => {
      await pool.end()
      await database.drop()
    },
  }
}

async function fingerprint(sql: TestLedger['sql']): Promise<string> {
  const tables = await sql<{ name: string }>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename",
  )
  const parts = tables.map(
    ({ name }) => `SELECT '${name}' AS name, md5(coalesce(string_agg(row::text, '|' ORDER BY row::text), '')) AS digest
      FROM ${name} AS row`,
  )
  const rows = await sql<{ name: string; digest: string }>(parts.join(' UNION ALL '))
  return rows.map(({ name, digest }) => `${name} ${digest}`).join('\n')
}

/** A random address, lower case. */
export function randomAddress(): Hex {
  return `0x${randomBytes(20).toString('hex')}`
}

/** What a payer might have signed; the signature is noise, which the ledger never looks at. */
export function testAuthorization(overrides: Partial<Authorization> = {}): Authorization {
  return {
    network: NETWORK,
    asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
    payer: randomAddress(),
    payTo: '0x1111111111111111111111111111111111111111',
    facilitator: '0x2222222222222222222222222222222222222222',
    spender: '0x4020a4f3b7b90cca423b9fabcc0ce57c6c240002',
    authorizedMaximum: atomicAmount(5034n),
    nonce: BigInt(`0x${randomBytes(32).toString('hex')}`),
    deadline: BigInt(Math.floor(Date.now() / 1000) + 600),
    validAfter: 0n,
    signature: `0x${randomBytes(65).toString('hex')}`,
    gasSponsoring: null,
    ...overrides,
  }
}

/** A permit of `payer` under one EIP-2612 nonce. */
export function testPermit(payer: Hex, nonce: bigint): NonNullable<Authorization['gasSponsoring']> {
  return {
    from: payer,
    asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
    spender: '0x000000000022d473030f116ddee9f6b43ac78ba3',
    amount: 5034n,
    nonce,
    deadline: BigInt(Math.floor(Date.now() / 1000) + 600),
    signature: `0x${randomBytes(65).toString('hex')}`,
    version: '1',
  }
}

export const EFFECTIVE: EffectiveTranscription = {
  operation: 'createTranscription',
  model: 'speechvendor/scribe-v2',
  audio: { sha256: 'a'.repeat(64), bytes: 1000, duration_ms: 2000 },
  file_format: 'other',
  diarize: false,
  timestamps: 'none',
  tag_audio_events: false,
  response_format: 'json',
}

/** A transcription as it is accepted: a request with an upload. */
export type TestJob = NewJob & { readonly stagedUpload: StagedUpload }

/** A request ready to be accepted; its key is not bound yet. */
export function newTestJob(overrides: Partial<TestJob> = {}): TestJob {
  const idempotencyKey = overrides.idempotencyKey ?? randomUUID()
  return {
    idempotencyKey,
    operation: 'createTranscription',
    publicModel: 'speechvendor/scribe-v2',
    requestDigest: sha256Hex(idempotencyKey),
    effectiveJson: Buffer.from(JSON.stringify(EFFECTIVE)),
    quote: { quotedMaximum: atomicAmount(5034n), catalogVersion: 'catalog-test', terms: TERMS },
    authorization: testAuthorization(),
    stagedUpload: newStagedUpload(),
    exposure: AMPLE_FUNDS,
    origin: { requestId: randomUUID(), traceparent: null },
    ...overrides,
  }
}

/** The same request sent again: each sending stages an upload of its own. */
export function sentAgain(job: TestJob, changes: Partial<TestJob> = {}): TestJob {
  return { ...job, stagedUpload: newStagedUpload(), ...changes }
}

/** The same request sent again with a fresh authorization of its payer. */
export function paidAfresh(job: TestJob): TestJob {
  return sentAgain(job, { authorization: testAuthorization({ payer: job.authorization.payer }) })
}

/** The terms of a payer who can pay for anything. */
export const AMPLE_FUNDS: ExposureTerms = {
  maximumOpen: atomicAmount(10n ** 12n),
  needsPermit: false,
  verifiedMsAgo: 0,
  funds: {
    balance: atomicAmount(10n ** 12n),
    allowance: atomicAmount(10n ** 12n),
    blockNumber: 1n,
    usedNonces: new Set(),
  },
}

/** Binds a key as the unpaid request would. */
export function bindTestKey(ledger: TestLedger, job: NewJob, lifetimeSeconds = 600) {
  const { idempotencyKey, requestDigest, quote } = job
  return ledger.admission.bindKey({ idempotencyKey, requestDigest, quote, lifetimeSeconds })
}

/** Binds and accepts; gives the job's id. */
export async function acceptTestJob(ledger: TestLedger, job: NewJob = newTestJob()): Promise<string> {
  await bindTestKey(ledger, job)
  const acceptance = await ledger.admission.acceptJob(job)
  if (acceptance.outcome !== 'accepted') throw new Error(`not accepted: ${acceptance.outcome}`)
  return acceptance.jobId
}

export async function claimTestJob(ledger: TestLedger, jobId: string, leaseMs = LEASE_MS): Promise<ClaimedJob> {
  const job = await ledger.execution.claimJob(jobId, leaseMs)
  if (!job) throw new Error(`job ${jobId} cannot be claimed`)
  return job
}

/** A result as sealing would make it. */
function sealedResult(overrides: Partial<SealedResult> = {}): SealedResult {
  const resultBody = overrides.resultBody ?? JSON.stringify({ text: 'one canary', id: randomUUID() })
  return {
    usage: { input_audio_ms: 2000 },
    chargeAmount: atomicAmount(5034n),
    resultBody,
    resultDigest: sha256Hex(resultBody),
    ...overrides,
  }
}

/** Signs nothing, but gives every call a transaction of its own. */
export async function signNoise(accountNonce: bigint): Promise<{ hash: Hex; raw: Hex }> {
  const noise = randomBytes(24).toString('hex')
  return { hash: `0x${noise}${accountNonce.toString(16).padStart(16, '0')}`, raw: `0x02${noise}` }
}

/** Everything that `completeJob` needs for a job, whether or not it may complete. */
export async function completionOf(ledger: TestLedger, job: ClaimedJob): Promise<Completion> {
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
      amount: '5034',
    },
  }
}

/** The worker's writes, each with the state it leads to; `run` gives what the store answered. */
export const fencedWrites = {
  startAttempt: {
    to: 'generating',
    run: async (ledger, job) => {
      const [open] = await ledger.sql<{ id: string }>(
        "SELECT id FROM upstream_attempts WHERE job_id = $1 AND state = 'open'",
        [job.id],
      )
      const failed = open ? { attemptId: open.id, reason: 'test' } : null
      return (await ledger.execution.startAttempt(job, 'elevenlabs', failed)).written
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
    run: async ({ execution }, job) => {
      const terms = { chargeAmount: atomicAmount(5034n), minimumAccountNonce: 0n, sign: signNoise }
      return (await execution.recordSettlement(job, terms)) === 'stale' ? 'stale' : 'written'
    },
  },
  completeJob: {
    to: 'completed',
    run: async (ledger, job) => await ledger.execution.completeJob(job, await completionOf(ledger, job)),
  },
  failSettlement: {
    to: 'settlement_failed',
    run: ({ execution }, job) => execution.failSettlement(job, { code: 'settlement_failed', reason: 'test' }),
  },
  markForReview: { to: 'review', run: ({ execution }, job) => execution.markForReview(job, 'test') },
} as const satisfies Record<
  string,
  { to: JobState; run: (ledger: TestLedger, job: ClaimedJob) => Promise<'written' | 'stale'> }
>

export type FencedWrite = keyof typeof fencedWrites

const pathTo: Record<JobState, readonly FencedWrite[]> = {
  accepted: [],
  generating: ['startAttempt'],
  generated: ['startAttempt', 'sealResult'],
  settling: ['startAttempt', 'sealResult', 'recordSettlement'],
  completed: ['startAttempt', 'sealResult', 'recordSettlement', 'completeJob'],
  failed: ['startAttempt', 'failJob'],
  settlement_failed: ['startAttempt', 'sealResult', 'recordSettlement', 'failSettlement'],
  review: ['startAttempt', 'sealResult', 'recordSettlement', 'markForReview'],
}

/** A job that real transitions brought to `state`, as the worker that holds its fence last saw it. */
export async function jobInState(ledger: TestLedger, state: JobState, request = newTestJob()): Promise<ClaimedJob> {
  let job = await claimTestJob(ledger, await acceptTestJob(ledger, request))
  for (const write of pathTo[state]) {
    const written = await fencedWrites[write].run(ledger, job)
    if (written !== 'written') throw new Error(`${write} was ${written}`)
    job = await rereadJob(ledger, job)
  }
  return job
}

/** The job as the ledger has it; one that is finished as it was last seen. */
export async function rereadJob(ledger: TestLedger, job: ClaimedJob): Promise<ClaimedJob> {
  const [row] = await ledger.sql<ClaimedJobRow>(
    `SELECT ${CLAIMED_JOB} FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
     WHERE jobs.id = $1 AND state IN ('accepted', 'generating', 'generated', 'settling')`,
    [job.id],
  )
  return row ? claimedJobFromRow(row) : job
}

/** The stored state and fence of a job. */
export async function storedState(ledger: TestLedger, jobId: string): Promise<{ state: JobState; fence: string }> {
  const [row] = await ledger.sql<{ state: JobState; fence: string }>('SELECT state, fence FROM jobs WHERE id = $1', [
    jobId,
  ])
  if (!row) throw new Error(`no job ${jobId}`)
  return row
}
