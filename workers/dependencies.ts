import { consumeJobs, createJobQueue } from '#shared/adapters/bullmq/job-queue.ts'
import { createAuthorizationVerifier } from '#shared/adapters/chain/authorization-verifier.ts'
import { createChainClient } from '#shared/adapters/chain/client.ts'
import { createSettler } from '#shared/adapters/chain/settler.ts'
import { createDiskObjectStore } from '#shared/adapters/disk/object-store.ts'
import { createExecutionStore } from '#shared/adapters/postgres/job-store/stores.ts'
import { createPool } from '#shared/adapters/postgres/pool.ts'
import type { JobConsumer, JobQueue } from '#shared/jobs/job-queue.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { createLogger } from '#shared/runtime/logger.ts'
import type { WorkerConfig } from './config.ts'
import { createElevenLabsTranscription } from './providers/elevenlabs/transcription.ts'
import { createHttp } from './providers/http.ts'
import type { RunJobDependencies } from './run-job.ts'

const CHAIN_ID = 8453

export interface WorkerDependencies extends RunJobDependencies {
  readonly queue: JobQueue
  readonly uploads: ObjectStore
  /** Starts taking jobs. */
  consume(run: (jobId: string) => Promise<void>): JobConsumer
  /** Ends every connection that was opened here; stop the consumer first. */
  close(): Promise<void>
}

/** Composes the worker process. */
export function createDependencies(config: WorkerConfig): WorkerDependencies {
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
  const chain = createChainClient(config.RPC_URL)
  return {
    store: createExecutionStore(pool),
    queue,
    uploads: createDiskObjectStore(config.OBJECT_STORE_DIRECTORY),
    verifier: createAuthorizationVerifier(chain, CHAIN_ID),
    settler: createSettler(chain, CHAIN_ID, config.SETTLEMENT_PRIVATE_KEYS),
    receiptSecretId: config.RECEIPT_SECRET_ID,
    deployments: [
      {
        name: 'elevenlabs',
        publicModel: 'speechvendor/scribe-v2',
        provider: createElevenLabsTranscription({
          baseUrl: config.ELEVENLABS_BASE_URL,
          apiKey: config.ELEVENLABS_API_KEY,
          upstreamModel: config.ELEVENLABS_TRANSCRIPTION_MODEL,
          http: createHttp({ fetch }),
        }),
      },
    ],
    providerTimeoutMs: config.PROVIDER_TIMEOUT_SECONDS * 1000,
    settlementMarginMs: config.SETTLEMENT_MARGIN_SECONDS * 1000,
    leaseMs: config.LEASE_SECONDS * 1000,
    now: () => new Date(),
    logger,
    consume: (run) => consumeJobs({ queueUrl, concurrency: config.WORKER_CONCURRENCY, run, onError: onQueueError }),
    close: async () => {
      await queue.close()
      await pool.end()
    },
  }
}
