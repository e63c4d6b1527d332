import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { privateKeyToAddress } from 'viem/accounts'
import { createDiskObjectStore, requireFolder } from '#shared/adapters/disk/disk-store.ts'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createBlockWatch } from '#shared/chain/reading/block-watch.ts'
import { createChainClock } from '#shared/chain/reading/chain-clock.ts'
import { createLatestBlock } from '#shared/chain/reading/latest-block.ts'
import { createPayerFundsReader } from '#shared/chain/reading/payer-funds.ts'
import { createSettlementSearch } from '#shared/chain/reading/settlement-search.ts'
import { gasOfContracts } from '#shared/chain/settlement-contract/gas-of-contract.ts'
import { createFeeEstimator } from '#shared/chain/settlement/fee-estimator.ts'
import { createGasReader } from '#shared/chain/settlement/gas-reader.ts'
import { createSettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import { createSettler } from '#shared/chain/settlement/settler.ts'
import { createAuthorizationVerifier } from '#shared/chain/verification/authorization-verifier.ts'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { QUEUE_NAMES } from '#shared/jobs/job-queue.ts'
import type { JobState } from '#shared/jobs/job.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { encryptUpload } from '#shared/media/staged-upload.ts'
import type { LogFields } from '#shared/runtime/logger.ts'
import { noTracing } from '#shared/runtime/tracing.ts'
import { startUpstream, type Upstream } from '../../../infra/sandbox/upstream/server.ts'
import { createMp3Converter } from '../../../workers/executions/convert-to-mp3.ts'
import { createImageFetcher } from '../../../workers/executions/fetch-remote-image.ts'
import { createExecutions } from '../../../workers/executions/registry.ts'
import { createRemoteImages, REMOTE_IMAGE_LIMITS } from '../../../workers/executions/remote-images.ts'
import type { JobDependencies } from '../../../workers/job/dependencies.ts'
import { createJobLeases } from '../../../workers/job/job-leases.ts'
import { createJobMemory } from '../../../workers/job/job-memory.ts'
import { runJob } from '../../../workers/job/run-job.ts'
import type { Deployment } from '../../../workers/providers/deployment.ts'
import { createElevenLabsTranscription } from '../../../workers/providers/elevenlabs/transcription.ts'
import { createHttp } from '../../../workers/providers/http.ts'
import { createRouter } from '../../../workers/providers/route.ts'
import { noScreening } from '../../../workers/screening/screener.ts'
import type { BatchDependencies, KeySettlementDependencies } from '../../../workers/settlement/dependencies.ts'
import { guardExecutionStore, guardSettlementStore } from '../../../workers/settlement/failure-guard.ts'
import { gatherBatches } from '../../../workers/settlement/own-keys/batches.ts'
import { createOwnKeySettlement } from '../../../workers/settlement/own-keys/settle-with-key.ts'
import type { SettlementBatches } from '../../../workers/settlement/own-keys/settlement-batches.ts'
import { startTestDevnet, type TestDevnet } from '../chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../chain/rpc-proxy.ts'
import { holdFirst } from '../chain/together.ts'
import { acceptTestJob } from '../ledger/job-in-state.ts'
import { EFFECTIVE_REQUEST, newTestJob, type TestJob } from '../ledger/new-test-job.ts'
import { createTestLedger, type TestLedger } from '../ledger/test-ledger.ts'
import { generatedDurationMs, generateMp3 } from '../media/mp3-generator.ts'
import { PATIENCE_MS } from '../patience.ts'
import { createPayer, type Payer } from '../payer/payer.ts'
import { type AuthorizationChanges, signAuthorization } from '../payer/sign-authorization.ts'

const RECEIPT_POLL_MS = 100
/** The default of a worker. */
const MEMORY_BYTES = 512 * 1024 * 1024
const AUDIO = { durationMs: 1500, seed: 'worker' } as const

/** The observable state of a job, with the names of the ledger's columns. */
export interface JobView {
  readonly state: JobState
  readonly failure_code: string | null
  readonly failure_reason: string | null
  readonly charge_amount: string | null
  readonly result_body: string | null
  readonly receipt_id: string | null
  readonly leased: boolean
  readonly deferred: boolean
  readonly has_key: boolean
  readonly attempts: readonly string[]
  readonly settlements: readonly string[]
}

/** Settles with its own key, unless `settlementSteps` replaces that. */
export type TestWorkerDependencies = Omit<JobDependencies, 'settlementSteps' | 'leases'> &
  Omit<KeySettlementDependencies, 'batches'> &
  BatchDependencies &
  Partial<Pick<JobDependencies, 'settlementSteps' | 'leases'> & Pick<KeySettlementDependencies, 'batches'>>

type ThroughChain = 'verifier' | 'payerFunds' | 'settler' | 'accounts' | 'blockWatch' | 'chainClock' | 'gas'

/** A worker in this process with a real ledger, chain and upstream; it reaches the chain through a fault proxy. */
export interface TestWorker {
  readonly ledger: TestLedger
  readonly devnet: TestDevnet
  readonly proxy: RpcProxy
  readonly upstream: Upstream
  readonly uploads: ObjectStore
  /** The log lines, as JSON. */
  readonly logged: readonly string[]
  readonly dependencies: TestWorkerDependencies
  /** The only deployment, which calls `upstream`. */
  readonly deployment: Deployment
  /** Creates a funded payer and accepts a job of theirs, ready to run. */
  accept(options?: AcceptOptions): Promise<AcceptedJob>
  /** Runs a job to its end, or to its deferral. */
  run(jobId: string, changes?: Partial<TestWorkerDependencies>, releaseSlot?: () => void): Promise<void>
  /** Runs a deferred job immediately. */
  runNow(jobId: string, changes?: Partial<TestWorkerDependencies>): Promise<void>
  /** Runs a deferred job as one that has been deferred for `seconds`. */
  runDeferredFor(jobId: string, seconds: number, changes?: Partial<TestWorkerDependencies>): Promise<void>
  view(jobId: string): Promise<JobView>
  /** Returns dependencies that reach the chain through another proxy and settle with another key. */
  through(proxy: RpcProxy, settlementKey: `0x${string}`): Pick<TestWorkerDependencies, ThroughChain>
  stop(): Promise<void>
}

export interface AcceptOptions {
  readonly payer?: Payer
  readonly signed?: AuthorizationChanges
  readonly effective?: Partial<typeof EFFECTIVE_REQUEST>
  /** Another MP3 of the same duration as the default one. */
  readonly audio?: Uint8Array
}

export interface AcceptedJob {
  readonly jobId: string
  readonly payer: Payer
  readonly request: TestJob
}

export async function startTestWorker(): Promise<TestWorker> {
  const [ledger, devnet, upstream] = await Promise.all([createTestLedger(), startTestDevnet(), startUpstream()])
  const directory = await mkdtemp(join(tmpdir(), 'farebox-worker-'))
  const proxy = await startRpcProxy(devnet.rpcUrl)
  const uploads = createDiskObjectStore(directory)
  const logged: string[] = []
  const log = (message: string, fields: LogFields = {}) => {
    logged.push(JSON.stringify({ message, ...fields, error: undefined }))
  }
  const deployment: Deployment = {
    name: 'elevenlabs',
    serves: ['speechvendor/scribe-v2'],
    vendor: 'vendor',
    upstreamModel: 'model',
    priority: 0,
    weight: 1,
    transcription: createElevenLabsTranscription({
      baseUrl: upstream.url,
      apiKey: 'test-key',
      upstreamModel: 'scribe_v2',
      http: createHttp({ fetch }),
    }),
  }
  const logger = { info: log, warn: log, error: log }
  const settlementSearch = createSettlementSearch(createChainClient(proxy.url, PATIENCE_MS))
  const guard = { settlementSearch, settlementStore: ledger.settlement, logger }
  const dependencies: TestWorkerDependencies = {
    ...through(proxy, devnet.accounts.settlement.privateKey),
    executionStore: guardExecutionStore({ ...ledger.execution, deferJob: deferredForLong(ledger) }, guard),
    settlementStore: guardSettlementStore(ledger.settlement, guard),
    // A chain whose receipts, blocks or clock a test holds back is asked often.
    unaskedMs: RECEIPT_POLL_MS,
    maximumBatchGas: 16_000_000n,
    uploads,
    memory: createJobMemory(MEMORY_BYTES),
    receiptSecretId: 'first',
    media: uploads,
    checkObjects: () => requireFolder(directory),
    publicBaseUrl: 'http://api.test',
    executionOf: createExecutions(
      createRemoteImages(createImageFetcher(), { ...REMOTE_IMAGE_LIMITS, slots: 8 }),
      createMp3Converter(undefined),
    ),
    screener: noScreening,
    ...routedTo([deployment], PATIENCE_MS),
    recallRemoved: () => Promise.resolve(false),
    outputTokensPerSecond: 128,
    settlementMarginMs: 1000,
    leaseMs: PATIENCE_MS,
    longestDeferralMs: { fail: 300_000, owe: 900_000, withhold: 86_400_000, review: 86_400_000 },
    queue: { enqueue: () => Promise.reject(new Error('this worker serves every queue')) },
    serves: new Set(QUEUE_NAMES),
    pausedQueues: new Set(),
    now: () => new Date(),
    logger,
    tracer: noTracing,
  }
  const run = (jobId: string, changes: Partial<TestWorkerDependencies> = {}, releaseSlot?: () => void) => {
    const changed = { ...dependencies, ...changes }
    const { batches = batchesOf(changed), leases = createJobLeases(changed) } = changed
    const { settlementSteps = createOwnKeySettlement({ ...changed, batches }) } = changed
    return runJob({ ...changed, settlementSteps, leases }, jobId, releaseSlot)
  }
  return {
    ledger,
    devnet,
    proxy,
    upstream,
    uploads,
    logged,
    dependencies,
    deployment,
    through,
    accept: async ({ payer: given, signed, effective, audio = generateMp3(AUDIO) } = {}) => {
      const payer = given ?? (await createPayer(devnet.rpcUrl))
      const request = newTestJob({
        authorization: await signAuthorization(devnet, payer, signed),
        effectiveJson: Buffer.from(
          JSON.stringify({
            ...EFFECTIVE_REQUEST,
            audio: { sha256: sha256Hex(audio), bytes: audio.length, duration_ms: generatedDurationMs(AUDIO) },
            ...effective,
          }),
        ),
      })
      await uploads.put(request.stagedUpload.objectKey, encryptUpload(request.stagedUpload, audio))
      const jobId = await acceptTestJob(ledger, request)
      return { jobId, payer, request }
    },
    run,
    runNow: async (jobId, changes) => {
      await ledger.sql('UPDATE jobs SET run_after = now() WHERE id = $1', [jobId])
      await run(jobId, changes)
    },
    runDeferredFor: async (jobId, seconds, changes) => {
      const aged = `UPDATE jobs SET run_after = now(), deferred_since = now() - make_interval(secs => $2),
          payment_blocked_since = CASE WHEN payment_blocked_since IS NOT NULL THEN now() - make_interval(secs => $2) END
        WHERE id = $1 AND deferred_since IS NOT NULL RETURNING id`
      if ((await ledger.sql(aged, [jobId, seconds])).length === 0) throw new Error(`job ${jobId} is not deferred`)
      await run(jobId, changes)
    },
    view: (jobId) => readView(ledger, jobId),
    stop: async () => {
      await proxy.stop()
      await Promise.all([upstream.stop(), devnet.stop(), ledger.close()])
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Returns a fresh router, so that no circuit stays open from one test to the next, and its time limit. */
export function routedTo(
  deployments: readonly Deployment[],
  providerTimeoutMs: number,
): Pick<JobDependencies, 'router' | 'providerTimeoutMs'> {
  const clock = { now: () => new Date(), random: Math.random }
  return { router: createRouter(deployments, { ...clock, maximumTimeoutMs: providerTimeoutMs }), providerTimeoutMs }
}

/** Defers jobs by a minute more than requested, so that one is still deferred when the test reads it. */
function deferredForLong({ execution }: TestLedger): TestWorkerDependencies['executionStore']['deferJob'] {
  return (job, delayMs, ...others) => execution.deferJob(job, delayMs + PATIENCE_MS, ...others)
}

/** By settler: the jobs of one process share its batches. */
const batchesOfSettlers = new WeakMap<object, SettlementBatches>()

/** Returns the batches that all runs with the same settler share. */
function batchesOf(dependencies: BatchDependencies): SettlementBatches {
  const { settler } = dependencies
  const batches = batchesOfSettlers.get(settler) ?? holdFirst(settler, gatherBatches(dependencies))
  batchesOfSettlers.set(settler, batches)
  return batches
}

/** Returns the chain dependencies of a worker, through a proxy. */
function through({ url }: RpcProxy, settlementKey: `0x${string}`): Pick<TestWorkerDependencies, ThroughChain> {
  const client = createChainClient(url, PATIENCE_MS)
  const latest = createLatestBlock(client)
  return {
    verifier: createAuthorizationVerifier(client, 8453),
    payerFunds: createPayerFundsReader(client, () => performance.now()),
    settler: createSettler(client, 8453, [settlementKey], { latest }),
    accounts: createSettlementAccounts(client, 8453, [settlementKey]),
    blockWatch: createBlockWatch(latest),
    chainClock: createChainClock(client, () => new Date()),
    gas: gasOfContracts(client, createGasReader(client, createFeeEstimator(client)), [
      privateKeyToAddress(settlementKey).toLowerCase() as `0x${string}`,
    ]),
  }
}

async function readView(ledger: TestLedger, jobId: string): Promise<JobView> {
  const [view] = await ledger.sql<JobView>(
    `SELECT jobs.state, failure_code, failure_reason, charge_amount, result_body, receipt_id,
       lease_expires_at > now() IS TRUE AS leased, run_after > now() AS deferred,
       (SELECT data_key IS NOT NULL FROM staged_uploads WHERE id = staged_upload_id) AS has_key,
       ARRAY(SELECT state FROM upstream_attempts WHERE job_id = jobs.id ORDER BY started_at) AS attempts,
       ARRAY(SELECT state FROM settlements WHERE job_id = jobs.id ORDER BY signed_at) AS settlements
     FROM jobs WHERE id = $1`,
    [jobId],
  )
  if (!view) throw new Error(`no job ${jobId}`)
  return view
}
