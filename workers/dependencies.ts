import { readFile } from 'node:fs/promises'
import type { Registry } from 'prom-client'
import type { PublicClient } from 'viem'
import { openJobQueue } from '#shared/adapters/bullmq/job-queue.ts'
import { createAuthorizationVerifier } from '#shared/adapters/chain/authorization-verifier.ts'
import { createBlockReader } from '#shared/adapters/chain/block-reader.ts'
import { createChainClock } from '#shared/adapters/chain/chain-clock.ts'
import { createChainClient } from '#shared/adapters/chain/client.ts'
import { CHAIN_ID } from '#shared/adapters/chain/contracts.ts'
import { createFeeEstimator } from '#shared/adapters/chain/fee-estimator.ts'
import { createGasReader } from '#shared/adapters/chain/gas-reader.ts'
import { createPayerFundsReader } from '#shared/adapters/chain/payer-funds.ts'
import { createSettlementAccounts } from '#shared/adapters/chain/settlement-accounts.ts'
import { createSettler } from '#shared/adapters/chain/settler.ts'
import { openObjectStore } from '#shared/adapters/object-store.ts'
import { openTracer } from '#shared/adapters/opentelemetry/open-tracer.ts'
import { createLedgerCheck, untilChecked } from '#shared/adapters/postgres/check-schema.ts'
import { createPool, type Pool } from '#shared/adapters/postgres/pool.ts'
import { createRemoteSettlementStore } from '#shared/adapters/postgres/settlement/remote-settlement.ts'
import {
  createExecutionStore,
  createLedgerFiguresStore,
  createSettlementStore,
} from '#shared/adapters/postgres/stores.ts'
import { createRemoteFacilitator } from '#shared/adapters/remote-facilitator/facilitator.ts'
import { createRemoteVerifier } from '#shared/adapters/remote-facilitator/verifier.ts'
import { parseDeploymentsFile } from '#shared/catalog/deployments-file.ts'
import type { JobConsumer, JobQueue } from '#shared/jobs/job-queue.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { LedgerFiguresStore } from '#shared/jobs/ledger-figures.ts'
import type { SettlementStore } from '#shared/jobs/settlement-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { GasReader } from '#shared/payment/gas-reader.ts'
import { createLogger, type Logger } from '#shared/runtime/logger.ts'
import { addPoolMetrics, createProcessMetrics } from '#shared/runtime/process-metrics.ts'
import { underSetting } from '#shared/runtime/start-process.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import type { WorkerConfig } from './config.ts'
import { createImageFetcher } from './executions/fetch-remote-image.ts'
import { createExecutions } from './executions/registry.ts'
import type { RunJobDependencies } from './job/run-job.ts'
import { createDeployments } from './providers/deployments-file.ts'
import { createHttp, type SendHttp } from './providers/http.ts'
import { createRouter } from './providers/route.ts'
import { concurrencyOf } from './queue-settings.ts'
import { createModerationScreener } from './screening/moderation-endpoint.ts'
import { noScreening, type Screener } from './screening/screener.ts'
import type { KeeperDependencies } from './settlement/own-keys/replace-stuck-transactions.ts'
import type { FinalityDependencies } from './settlement/own-keys/watch-finality.ts'
import type { GasWatchDependencies } from './settlement/own-keys/watch-gas.ts'
import { createRemoteSettlement } from './settlement/remote-facilitator/settle-charge.ts'
import type { RemoteFinalityDependencies } from './settlement/remote-facilitator/watch-finality.ts'
import { createOwnKeySettlement } from './settlement/settlement-steps.ts'
import { measuredRouter } from './telemetry/deployment-metrics.ts'
import { tracedFacilitator, tracedSettlementSteps, tracedSettler, tracedStore } from './telemetry/traced-ports.ts'

export interface WorkerDependencies
  extends RunJobDependencies,
    FinalityDependencies,
    GasWatchDependencies,
    Omit<KeeperDependencies, 'onReplacement' | 'onUsedElsewhere'> {
  readonly settlements: SettlementStore
  readonly settler: Settler
  readonly ledger: LedgerFiguresStore
  /** What this process shows of itself. */
  readonly metrics: Registry
  /** `null` with settlement keys of our own. */
  readonly remote: RemoteParts | null
  readonly queue: JobQueue
  readonly uploads: ObjectStore
  readonly media: ObjectStore
  /** Starts taking jobs. */
  consume(run: (jobId: string) => Promise<void>): JobConsumer
  /** Ends every connection that was opened here; stop the consumer first. */
  close(): Promise<void>
}

const now = () => new Date()

/** Composes the worker process. */
export async function createDependencies(config: WorkerConfig): Promise<WorkerDependencies> {
  const metrics = createProcessMetrics()
  const tracer = await openTracer(config, 'farebox-worker', metrics)
  const presentRequest = () => tracer.present()
  const logger = createLogger({ process: 'worker', level: config.LOG_LEVEL, presentRequest })
  const pool = createPool({
    connectionString: config.DATABASE_URL,
    maximumConnections: config.DATABASE_CONNECTIONS,
    applicationName: 'farebox worker',
    onError: (error) => logger.warn('an idle database connection was lost', { error }),
  })
  addPoolMetrics(metrics, pool)
  // A worker without a database has nothing to do, so it waits for it.
  await untilChecked(createLedgerCheck({ pool, databaseUrl: config.DATABASE_URL, now }), (error) =>
    logger.warn('DATABASE_URL: the database cannot be reached yet', { error }),
  )
  const concurrency = concurrencyOf(config)
  const settles = concurrency.has('settlement')
  // A process that only settles calls no provider, and so is given none of their keys.
  const callsProviders = [...concurrency.keys()].some((name) => name !== 'settlement')
  const queue = await openJobQueue(config, (error) => logger.warn('the queue reports an error', { error }))
  const { objects, close: closeObjects } = await openObjectStore(config)
  const chain = createChainClient(config.RPC_URL, config.RPC_TIMEOUT_MS)
  const store = tracedStore(tracer, createExecutionStore(pool))
  const settlements = createSettlementStore(pool)
  const maximumFeePerGasWei = config.MAXIMUM_FEE_PER_GAS_WEI ?? null
  const estimateFees = createFeeEstimator(chain, maximumFeePerGasWei)
  // None with a remote facilitator, or where others settle: there is no line to keep then, and no gas to watch.
  const keys = settles ? (config.SETTLEMENT_PRIVATE_KEYS ?? []) : []
  const accounts = createSettlementAccounts(chain, CHAIN_ID, keys, { estimateFees, maximumFeePerGasWei })
  const settlerOptions = { confirmations: config.CONFIRMATIONS, estimateFees }
  const settler = tracedSettler(tracer, createSettler(chain, CHAIN_ID, keys, settlerOptions))
  const ownGas = createGasReader(chain, estimateFees)
  const http = createHttp({ fetch })
  const deployments = await underSetting('DEPLOYMENTS_FILE', async () => {
    const file = parseDeploymentsFile(await readFile(config.DEPLOYMENTS_FILE, 'utf8'))
    return createDeployments(callsProviders ? file : { deployments: [] }, { environment: config.environment, http })
  })
  return {
    store,
    queue,
    uploads: objects,
    payerFunds: createPayerFundsReader(chain, () => performance.now()),
    ...createPaymentSide(config, { chain, pool, store, settlements, settler, ownGas, logger, tracer }),
    chainClock: createChainClock(chain, now),
    settler,
    settlements,
    ledger: createLedgerFiguresStore(pool),
    metrics,
    tracer,
    accounts,
    facilitators: accounts.facilitators,
    gasWarningSettlements: config.GAS_WARNING_SETTLEMENTS,
    blocks: createBlockReader(chain),
    network: `eip155:${CHAIN_ID}`,
    feeBumpAfterMs: config.FEE_BUMP_AFTER_SECONDS * 1000,
    media: objects,
    publicBaseUrl: config.PUBLIC_BASE_URL,
    router: measuredRouter(
      metrics,
      createRouter(deployments, {
        now,
        random: Math.random,
        maximumTimeoutMs: config.PROVIDER_TIMEOUT_SECONDS * 1000,
      }),
    ),
    screener: createScreener(config, http),
    executionOf: createExecutions(createImageFetcher()),
    providerTimeoutMs: config.PROVIDER_TIMEOUT_SECONDS * 1000,
    settlementMarginMs: config.SETTLEMENT_MARGIN_SECONDS * 1000,
    leaseMs: config.LEASE_SECONDS * 1000,
    now,
    logger,
    serves: new Set(concurrency.keys()),
    held: new Set(),
    consume: (run) => queue.consume(concurrency, run),
    close: async () => {
      await queue.close()
      await pool.end()
      await tracer.close()
      closeObjects()
    },
  }
}

/** What a worker with a remote facilitator looks after besides. */
type RemoteParts = Pick<RemoteFinalityDependencies, 'facilitator' | 'settlements'>

interface PaymentSideParts {
  readonly chain: PublicClient
  readonly pool: Pool
  readonly store: ExecutionStore
  readonly settlements: SettlementStore
  readonly settler: Settler
  readonly ownGas: GasReader
  readonly logger: Logger
  readonly tracer: Tracer
}

/** A remote facilitator pays for gas itself, and never tells how much it has. */
const gasElsewhere: GasReader = {
  readGas: async () => ({ balanceWei: 0n, settlementsLeft: Number.POSITIVE_INFINITY }),
}

/** Verification and settlement, both through the same party: keys of our own, or the remote facilitator. */
function createPaymentSide(
  config: WorkerConfig,
  { chain, pool, store, settlements, settler, ownGas, logger, tracer }: PaymentSideParts,
): Pick<RunJobDependencies, 'verifier' | 'settlementSteps' | 'gas'> & { readonly remote: RemoteParts | null } {
  const own = createAuthorizationVerifier(chain, CHAIN_ID)
  const settling = { receiptSecretId: config.RECEIPT_SECRET_ID, now, logger }
  const { FACILITATOR_URL: url, FACILITATOR_API_KEY: apiKey, CONFIRMATIONS: confirmations } = config
  if (url === undefined)
    return {
      verifier: own,
      gas: ownGas,
      settlementSteps: tracedSettlementSteps(tracer, createOwnKeySettlement({ ...settling, store, settler })),
      remote: null,
    }
  const timeoutMs = config.FACILITATOR_TIMEOUT_SECONDS * 1000
  const facilitator = tracedFacilitator(
    tracer,
    createRemoteFacilitator({ url, apiKey, timeoutMs, confirmations }, chain, own),
  )
  const remoteSettlements = createRemoteSettlementStore(pool)
  return {
    verifier: createRemoteVerifier({ url, apiKey }, own),
    gas: gasElsewhere,
    settlementSteps: tracedSettlementSteps(
      tracer,
      createRemoteSettlement({ ...settling, store: { ...store, ...remoteSettlements }, facilitator }),
    ),
    remote: { facilitator, settlements: { ...settlements, ...remoteSettlements } },
  }
}

function createScreener(config: WorkerConfig, http: SendHttp): Screener {
  const { SCREENING_BASE_URL: baseUrl, SCREENING_API_KEY: apiKey, SCREENING_MODEL: model } = config
  return baseUrl === undefined ? noScreening : createModerationScreener({ baseUrl, apiKey, model, http })
}
