import type { Registry } from 'prom-client'
import { type OpenedJobQueue, openJobQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { openObjectStore } from '#shared/adapters/open-stores.ts'
import type { QueueSettings } from '#shared/jobs/queue-settings.ts'
import {
  createLedgerCheck,
  createUntilReachable,
  type LedgerCheck,
  type UntilReachable,
} from '#shared/ledger/check-schema.ts'
import { createPool, type Pool } from '#shared/ledger/pool.ts'
import { findRoleProblem } from '#shared/ledger/role-rights.ts'
import { createWaitWatch } from '#shared/ledger/watch-waits.ts'
import type { ObjectStoreSettings } from '#shared/media/object-store-settings.ts'
import type { OpenedObjectStore } from '#shared/media/object-store.ts'
import { isConnectionFailure, reasonOf } from '#shared/runtime/connection-failure.ts'
import { createLogger, type Logger, type LogLevel } from '#shared/runtime/logger.ts'
import { addPoolMetrics, createProcessMetrics } from '#shared/runtime/process-metrics.ts'
import { rarely } from '#shared/runtime/rarely.ts'
import type { TelemetrySettings } from '#shared/runtime/telemetry-settings.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import { openTracer } from '../opentelemetry/open-tracer.ts'

interface LedgerSettings extends TelemetrySettings {
  readonly DATABASE_URL: string
  readonly DATABASE_CONNECTIONS: number
  readonly LOG_LEVEL: LogLevel
}
type ProcessSettings = LedgerSettings & QueueSettings & ObjectStoreSettings

interface LedgerProcessOptions {
  readonly name: 'api' | 'worker' | 'operator'
  readonly settings: LedgerSettings
  /** Whether to wait for a database that cannot be reached yet, instead of starting without it. */
  readonly waitsForLedger: boolean
  readonly now: () => Date
}

export interface ProcessOptions extends LedgerProcessOptions {
  readonly name: 'api' | 'worker'
  readonly settings: ProcessSettings
}

/** The database and telemetry that every process has. */
export interface OpenedLedgerProcess {
  readonly metrics: Registry
  readonly tracer: Tracer
  readonly logger: Logger
  readonly pool: Pool
  readonly ledgerCheck: LedgerCheck
  /** For a start that cannot go on without the database; says what it waits for. */
  readonly untilReachable: UntilReachable
}

/** The connections and telemetry that API and worker have in common. */
export interface OpenedProcess extends OpenedLedgerProcess, Pick<OpenedObjectStore, 'objects' | 'links'> {
  readonly checkObjects: OpenedObjectStore['check']
  readonly queue: OpenedJobQueue
}

/** Opens what every process has, as `openProcess` does. */
export async function openLedgerProcess(
  resources: AsyncDisposableStack,
  { name, settings, waitsForLedger, now }: LedgerProcessOptions,
): Promise<OpenedLedgerProcess> {
  const metrics = createProcessMetrics()
  const tracer = await openTracer(settings, `farebox-${name}`, metrics)
  resources.defer(() => tracer.close())
  const logger = createLogger({ process: name, level: settings.LOG_LEVEL, currentRequest: () => tracer.current() })
  const pool = createPool({
    connectionString: settings.DATABASE_URL,
    maximumConnections: settings.DATABASE_CONNECTIONS,
    applicationName: `farebox ${name}`,
    plansOnce: name !== 'operator',
    onError: (error) => logger.warn('an idle database connection was lost', { error }),
    waits: createWaitWatch({
      connectionString: settings.DATABASE_URL,
      onWait: (reason) => logger.warn('DATABASE_URL: this process waits for the database', { reason }),
    }),
  })
  resources.defer(() => pool.end())
  addPoolMetrics(metrics, pool)
  const ledgerCheck = createLedgerCheck({ pool, databaseUrl: settings.DATABASE_URL, now })
  const onWait = rarely(
    (error: unknown) => logger.warn('DATABASE_URL: the database cannot be reached yet', { error }),
    reasonOf,
  )
  const untilReachable = createUntilReachable(onWait)
  const check = async () => {
    await ledgerCheck.schema()
    await ledgerCheck.clock()
    const reason = await findRoleProblem(pool).catch((error: unknown) => {
      if (isConnectionFailure(error)) throw error
      return null
    })
    if (reason !== null) logger.warn('DATABASE_URL: the role of this service has too many rights', { reason })
  }
  if (waitsForLedger) await untilReachable(check)
  else
    await check().catch((error: unknown) => {
      if (!isConnectionFailure(error)) throw error
      onWait(error)
    })
  return { metrics, tracer, logger, pool, ledgerCheck, untilReachable }
}

/**
 * Opens what API and worker have in common. Each part is added to `resources` as soon as it is open, so a failed start
 * and a regular stop close the same things in the same order: the queue first, the tracer last.
 */
export async function openProcess(resources: AsyncDisposableStack, options: ProcessOptions): Promise<OpenedProcess> {
  const opened = await openLedgerProcess(resources, options)
  const { name, settings } = options
  const { logger } = opened
  const {
    objects,
    links,
    check: checkObjects,
    close: closeObjects,
  } = await openObjectStore(settings, name, (error) => logger.warn('the object store cannot be used yet', { error }))
  resources.defer(closeObjects)
  const queue = await openJobQueue(settings, (error) => logger.warn('the queue reports an error', { error }))
  resources.defer(() =>
    queue.close().catch((error: unknown) => logger.warn('the queue was not closed cleanly', { error })),
  )
  return { ...opened, objects, links, checkObjects, queue }
}
