import { readFile } from 'node:fs/promises'
import { consumeJobs, createJobQueue } from '#shared/adapters/bullmq/job-queue.ts'
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
import { createDiskObjectStore } from '#shared/adapters/disk/object-store.ts'
import { createExecutionStore, createSettlementStore } from '#shared/adapters/postgres/job-store/stores.ts'
import { createPool } from '#shared/adapters/postgres/pool.ts'
import { parseDeploymentsFile } from '#shared/catalog/deployments-file.ts'
import type { JobConsumer, JobQueue } from '#shared/jobs/job-queue.ts'
import type { SettlementStore } from '#shared/jobs/settlement-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { createLogger } from '#shared/runtime/logger.ts'
import type { WorkerConfig } from './config.ts'
import { createImageFetcher } from './executions/fetch-remote-image.ts'
import { createExecutions } from './executions/registry.ts'
import { createDeployments } from './providers/deployments-file.ts'
import { createHttp, type SendHttp } from './providers/http.ts'
import { createRouter } from './providers/route.ts'
import type { RunJobDependencies } from './run-job.ts'
import { createModerationScreener } from './screening/moderation-endpoint.ts'
import { noScreening, type Screener } from './screening/screener.ts'
import type { KeeperDependencies } from './sweepers/keep-nonces-moving.ts'
import type { FinalityDependencies } from './sweepers/watch-finality.ts'
import type { GasWatchDependencies } from './sweepers/watch-gas.ts'

export interface WorkerDependencies
  extends RunJobDependencies,
    Omit<FinalityDependencies, 'settler'>,
    GasWatchDependencies,
    Omit<KeeperDependencies, 'onReplacement'> {
  readonly settlements: SettlementStore
  readonly queue: JobQueue
  readonly uploads: ObjectStore
  readonly media: ObjectStore
  /** Starts taking jobs. */
  consume(run: (jobId: string) => Promise<void>): JobConsumer
  /** Ends every connection that was opened here; stop the consumer first. */
  close(): Promise<void>
}

/** Two calls and one for each of the newest settled blocks; a reorganisation is noticed within this time. */
const FINALITY_LOOK_MS = 5000

const now = () => new Date()

/** Composes the worker process. */
export async function createDependencies(config: WorkerConfig): Promise<WorkerDependencies> {
  const logger = createLogger({ process: 'worker', level: config.LOG_LEVEL })
  const pool = createPool({
    connectionString: config.DATABASE_URL,
    maximumConnections: config.DATABASE_CONNECTIONS,
    applicationName: 'farebox worker',
    onError: (error) => logger.warn('an idle database connection was lost', { error }),
  })
  const queueUrl = config.QUEUE_URL ?? config.DATABASE_URL
  const onQueueError = (error: Error) => logger.warn('the queue reports an error', { error })
  const queue = createJobQueue(queueUrl, onQueueError)
  const chain = createChainClient(config.RPC_URL, config.RPC_TIMEOUT_MS)
  const maximumFeePerGasWei = config.MAXIMUM_FEE_PER_GAS_WEI ?? null
  const estimateFees = createFeeEstimator(chain, maximumFeePerGasWei)
  const accounts = createSettlementAccounts(chain, CHAIN_ID, config.SETTLEMENT_PRIVATE_KEYS, {
    estimateFees,
    maximumFeePerGasWei,
  })
  const objects = createDiskObjectStore(config.OBJECT_STORE_DIRECTORY)
  const http = createHttp({ fetch })
  const file = parseDeploymentsFile(await readFile(config.DEPLOYMENTS_FILE, 'utf8'))
  return {
    store: createExecutionStore(pool),
    queue,
    uploads: objects,
    verifier: createAuthorizationVerifier(chain, CHAIN_ID),
    payerFunds: createPayerFundsReader(chain, () => performance.now()),
    chainClock: createChainClock(chain, now),
    gas: createGasReader(chain, estimateFees),
    settler: createSettler(chain, CHAIN_ID, config.SETTLEMENT_PRIVATE_KEYS, {
      confirmations: config.CONFIRMATIONS,
      estimateFees,
    }),
    settlements: createSettlementStore(pool),
    accounts,
    facilitators: accounts.facilitators,
    gasWarningSettlements: config.GAS_WARNING_SETTLEMENTS,
    blocks: createBlockReader(chain),
    finalityLookMs: FINALITY_LOOK_MS,
    network: `eip155:${CHAIN_ID}`,
    feeBumpAfterMs: config.FEE_BUMP_AFTER_SECONDS * 1000,
    receiptSecretId: config.RECEIPT_SECRET_ID,
    media: objects,
    publicBaseUrl: config.PUBLIC_BASE_URL,
    router: createRouter(createDeployments(file, { environment: config.environment, http }), {
      now,
      random: Math.random,
      maximumTimeoutMs: config.PROVIDER_TIMEOUT_SECONDS * 1000,
    }),
    screener: createScreener(config, http),
    executionOf: createExecutions(createImageFetcher()),
    providerTimeoutMs: config.PROVIDER_TIMEOUT_SECONDS * 1000,
    settlementMarginMs: config.SETTLEMENT_MARGIN_SECONDS * 1000,
    leaseMs: config.LEASE_SECONDS * 1000,
    now,
    logger,
    consume: (run) => consumeJobs({ queueUrl, concurrency: config.WORKER_CONCURRENCY, run, onError: onQueueError }),
    close: async () => {
      await queue.close()
      await pool.end()
    },
  }
}

function createScreener(config: WorkerConfig, http: SendHttp): Screener {
  const { SCREENING_BASE_URL: baseUrl, SCREENING_API_KEY: apiKey, SCREENING_MODEL: model } = config
  return baseUrl === undefined ? noScreening : createModerationScreener({ baseUrl, apiKey, model, http })
}
