import type { ChainClock } from '#shared/chain/reading/chain-clock.ts'
import type { PayerFundsReader } from '#shared/chain/reading/payer-funds.ts'
import type { GasReader } from '#shared/chain/settlement/gas-reader.ts'
import type { JobQueue, QueueName } from '#shared/jobs/job-queue.ts'
import type { Job } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import type { ObjectStore, OpenedObjectStore } from '#shared/media/object-store.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import type { Execution } from '../executions/execution.ts'
import type { Router } from '../providers/route.ts'
import type { Screener } from '../screening/screener.ts'
import type { JobLeases } from './job-leases.ts'
import type { JobMemory } from './job-memory.ts'
import type { Ending, SettlementSteps } from './step-outcome.ts'

/** What the state loop of a job and its steps depend on. */
export interface JobDependencies {
  readonly executionStore: ExecutionStore
  readonly settlementStore: SettlementStore
  readonly settlementSteps: SettlementSteps
  readonly queue: Pick<JobQueue, 'enqueue'>
  /** The queues of this process. A job whose next step belongs to another queue is handed over. */
  readonly serves: ReadonlySet<QueueName>
  /** The queues that operators have paused; changes while the process runs. */
  readonly pausedQueues: ReadonlySet<QueueName>
  /** The leases of this process's jobs, which are handed back when it stops. */
  readonly leases: JobLeases
  readonly leaseMs: number
  /** How long a job may be deferred before it ends, by how it ends. */
  readonly longestDeferralMs: Readonly<Record<Ending, number>>
  readonly memory: JobMemory
  readonly uploads: ObjectStore
  readonly media: ObjectStore
  /** Rejects while media could not be stored. */
  readonly checkObjects: OpenedObjectStore['check']
  readonly publicBaseUrl: string
  readonly executionOf: (operationId: string) => Execution
  readonly screener: Screener
  readonly router: Router
  /**
   * Lets the deployments take a job's call that were published when it was accepted, and removed since. Returns whether
   * there are any.
   */
  readonly recallRemoved: (job: Pick<Job, 'publicModel' | 'acceptedAt'>) => Promise<boolean>
  readonly verifier: AuthorizationVerifier
  readonly payerFunds: PayerFundsReader
  readonly chainClock: ChainClock
  readonly gas: GasReader
  readonly providerTimeoutMs: number
  /** See `extraOutputSeconds`. */
  readonly outputTokensPerSecond: number
  /** Time that a settlement needs before the authorization ends. */
  readonly settlementMarginMs: number
  readonly now: () => Date
  readonly logger: Logger
  readonly tracer: Tracer
}
