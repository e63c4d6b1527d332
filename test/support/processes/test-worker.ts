import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createAuthorizationVerifier } from '#shared/adapters/chain/authorization-verifier.ts'
import { createChainClock } from '#shared/adapters/chain/chain-clock.ts'
import { createChainClient } from '#shared/adapters/chain/client.ts'
import { createFeeEstimator } from '#shared/adapters/chain/fee-estimator.ts'
import { createGasReader } from '#shared/adapters/chain/gas-reader.ts'
import { createPayerFundsReader } from '#shared/adapters/chain/payer-funds.ts'
import { createSettler } from '#shared/adapters/chain/settler.ts'
import { createDiskObjectStore } from '#shared/adapters/disk/object-store.ts'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { JobState } from '#shared/jobs/job.ts'
import { queueNames } from '#shared/jobs/job-queue.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { encryptUpload } from '#shared/media/staged-upload.ts'
import type { LogFields } from '#shared/runtime/logger.ts'
import { noTracing } from '#shared/runtime/tracing.ts'
import { startUpstream, type Upstream } from '../../../infra/sandbox/upstream/server.ts'
import { createImageFetcher } from '../../../workers/executions/fetch-remote-image.ts'
import { createExecutions } from '../../../workers/executions/registry.ts'
import { type RunJobDependencies, runJob } from '../../../workers/job/run-job.ts'
import { createElevenLabsTranscription } from '../../../workers/providers/elevenlabs/transcription.ts'
import { createHttp } from '../../../workers/providers/http.ts'
import type { Deployment } from '../../../workers/providers/registry.ts'
import { createRouter } from '../../../workers/providers/route.ts'
import { noScreening } from '../../../workers/screening/screener.ts'
import type { SettlementDependencies } from '../../../workers/settlement/own-keys/settle-charge.ts'
import { createOwnKeySettlement } from '../../../workers/settlement/settlement-steps.ts'
import { startTestDevnet, type TestDevnet } from '../chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../chain/rpc-proxy.ts'
import { createTestLedger, EFFECTIVE, newTestJob, type TestJob, type TestLedger } from '../ledger/test-ledger.ts'
import { generatedDurationMs, generateMp3 } from '../media/mp3-generator.ts'
import { PATIENCE_MS } from '../patience.ts'
import { type AuthorizationChanges, type ChainPayer, createChainPayer } from '../payer/chain-payer.ts'

const AUDIO = { durationMs: 1500, seed: 'worker' } as const

/** How a job looks from outside, in the words of the ledger's columns. */
export interface JobView {
  readonly state: JobState
  readonly failure_code: string | null
  readonly failure_reason: string | null
  readonly charge_amount: string | null
  readonly result_body: string | null
  readonly receipt_id: string | null
  readonly leased: boolean
  readonly put_off: boolean
  readonly has_key: boolean
  readonly attempts: readonly string[]
  readonly settlements: readonly string[]
}

/** With a settlement key of our own, unless a `settlementSteps` is given instead. */
export type TestWorkerDependencies = Omit<RunJobDependencies, 'settlementSteps'> &
  SettlementDependencies &
  Partial<Pick<RunJobDependencies, 'settlementSteps'>>

/** A worker in this process over a real ledger, chain and upstream; the chain is reached through a fault proxy. */
export interface TestWorker {
  readonly ledger: TestLedger
  readonly devnet: TestDevnet
  readonly proxy: RpcProxy
  readonly upstream: Upstream
  readonly uploads: ObjectStore
  /** What was logged, as JSON. */
  readonly logged: readonly string[]
  readonly dependencies: TestWorkerDependencies
  /** The only deployment, over `upstream`. */
  readonly deployment: Deployment
  /** A funded payer and his accepted job, ready to run. */
  accept(options?: AcceptOptions): Promise<AcceptedJob>
  run(jobId: string, changes?: Partial<TestWorkerDependencies>): Promise<void>
  /** Lets a job that was put off run at once. */
  runNow(jobId: string, changes?: Partial<TestWorkerDependencies>): Promise<void>
  view(jobId: string): Promise<JobView>
  /** Dependencies whose chain is reached through another proxy, and that settle with another key. */
  through(
    proxy: RpcProxy,
    settlementKey: `0x${string}`,
  ): Pick<TestWorkerDependencies, 'verifier' | 'payerFunds' | 'settler' | 'chainClock' | 'gas'>
  stop(): Promise<void>
}

export interface AcceptOptions {
  readonly payer?: ChainPayer
  readonly signed?: AuthorizationChanges
  readonly effective?: Partial<typeof EFFECTIVE>
}

export interface AcceptedJob {
  readonly jobId: string
  readonly payer: ChainPayer
  readonly request: TestJob
}

export async function startTestWorker(): Promise<TestWorker> {
  const [ledger, devnet, upstream, directory] = await Promise.all([
    createTestLedger(),
    startTestDevnet(),
    startUpstream(),
    mkdtemp(join(tmpdir(), 'farebox-worker-')),
  ])
  const proxy = await startRpcProxy(devnet.rpcUrl)
  const uploads = createDiskObjectStore(directory)
  const logged: string[] = []
  const log = (message: string, fields: LogFields = {}) => {
    logged.push(JSON.stringify({ message, ...fields, error: undefined }))
  }
  const deployment: Deployment = {
    name: 'elevenlabs',
    serves: ['speechvendor/scribe-v2'],
    priority: 0,
    weight: 1,
    transcription: createElevenLabsTranscription({
      baseUrl: upstream.url,
      apiKey: 'test-key',
      upstreamModel: 'scribe_v2',
      http: createHttp({ fetch }),
    }),
  }
  const dependencies: TestWorkerDependencies = {
    ...through(proxy, devnet.accounts.settlement.privateKey),
    store: { ...ledger.execution, releaseJob: releasedForLong(ledger) },
    uploads,
    receiptSecretId: 'first',
    media: uploads,
    publicBaseUrl: 'http://api.test',
    executionOf: createExecutions(createImageFetcher()),
    screener: noScreening,
    ...routedTo([deployment], PATIENCE_MS),
    settlementMarginMs: 1000,
    leaseMs: PATIENCE_MS,
    queue: { enqueue: () => Promise.reject(new Error('this worker serves every queue')) },
    serves: new Set(queueNames),
    held: new Set(),
    now: () => new Date(),
    logger: { info: log, warn: log, error: log },
    tracer: noTracing,
  }
  const run = (jobId: string, changes: Partial<TestWorkerDependencies> = {}) => {
    const changed = { ...dependencies, ...changes }
    return runJob({ ...changed, settlementSteps: changed.settlementSteps ?? createOwnKeySettlement(changed) }, jobId)
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
    accept: async ({ payer: given, signed, effective } = {}) => {
      const payer = given ?? (await createChainPayer(devnet))
      const audio = generateMp3(AUDIO)
      const request = newTestJob({
        authorization: await payer.sign(signed),
        effectiveJson: Buffer.from(
          JSON.stringify({
            ...EFFECTIVE,
            audio: { sha256: sha256Hex(audio), bytes: audio.length, duration_ms: generatedDurationMs(AUDIO) },
            ...effective,
          }),
        ),
      })
      await uploads.put(request.stagedUpload.objectKey, encryptUpload(request.stagedUpload, audio))
      await ledger.admission.bindKey({ ...request, lifetimeSeconds: 600 })
      const acceptance = await ledger.admission.acceptJob(request)
      if (acceptance.outcome !== 'accepted') throw new Error(`not accepted: ${acceptance.outcome}`)
      return { jobId: acceptance.jobId, payer, request }
    },
    run,
    runNow: async (jobId, changes) => {
      await ledger.sql('UPDATE jobs SET run_after = now() WHERE id = $1', [jobId])
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

/** A router of its own, so that no circuit stays open from one test to the next, and the time limit it goes with. */
export function routedTo(
  deployments: readonly Deployment[],
  providerTimeoutMs: number,
): Pick<RunJobDependencies, 'router' | 'providerTimeoutMs'> {
  const clock = { now: () => new Date(), random: Math.random }
  return { router: createRouter(deployments, { ...clock, maximumTimeoutMs: providerTimeoutMs }), providerTimeoutMs }
}

/** Puts jobs off by a minute more than asked for, so that one is still put off whenever a test looks. */
function releasedForLong({ execution }: TestLedger): TestWorkerDependencies['store']['releaseJob'] {
  return (job, delayMs) => execution.releaseJob(job, delayMs > 0 ? delayMs + PATIENCE_MS : 0)
}

/** What a worker needs of the chain, reached through a proxy. */
function through(
  { url }: RpcProxy,
  settlementKey: `0x${string}`,
): Pick<TestWorkerDependencies, 'verifier' | 'payerFunds' | 'settler' | 'chainClock' | 'gas'> {
  const client = createChainClient(url, PATIENCE_MS)
  return {
    verifier: createAuthorizationVerifier(client, 8453),
    payerFunds: createPayerFundsReader(client, () => performance.now()),
    settler: createSettler(client, 8453, [settlementKey]),
    chainClock: createChainClock(client, () => new Date()),
    gas: createGasReader(client, createFeeEstimator(client)),
  }
}

async function readView(ledger: TestLedger, jobId: string): Promise<JobView> {
  const [view] = await ledger.sql<JobView>(
    `SELECT jobs.state, failure_code, failure_reason, charge_amount, result_body, receipt_id,
       lease_expires_at > now() IS TRUE AS leased, run_after > now() AS put_off,
       (SELECT data_key IS NOT NULL FROM staged_uploads WHERE id = staged_upload_id) AS has_key,
       ARRAY(SELECT state FROM upstream_attempts WHERE job_id = jobs.id ORDER BY started_at) AS attempts,
       ARRAY(SELECT state FROM settlements WHERE job_id = jobs.id ORDER BY signed_at) AS settlements
     FROM jobs WHERE id = $1`,
    [jobId],
  )
  if (!view) throw new Error(`no job ${jobId}`)
  return view
}
