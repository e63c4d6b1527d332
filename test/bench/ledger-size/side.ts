import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { EmbeddedPostgres } from '../../../infra/sandbox/postgres/embedded-postgres.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import type { Payer } from '../../support/payer/payer.ts'
import { DURABLE_REDIS, startTestRedis } from '../../support/processes/redis-server.ts'
import type { TestSandbox } from '../../support/processes/test-sandbox.ts'
import { startFarebox } from '../measuring/farebox.ts'
import { fundWallets } from './wallets.ts'

export type SideName = 'empty' | 'full'

/** A farebox on Redis, with its console, over one of the two ledgers. */
export interface Side {
  readonly name: SideName
  readonly sandbox: TestSandbox
  readonly database: pg.Pool
  readonly wallets: readonly Payer[]
  readonly pids: Readonly<Record<'api' | 'worker' | 'postgres' | 'chain' | 'redis', number>>
  /** Of API and worker. */
  readonly metricsPorts: Readonly<Record<'api' | 'worker', number>>
  /** How long each process took until it was ready. */
  readonly startMs: ReadonlyMap<string, number>
  stop(): Promise<void>
}

/** Between the blocks of the history, or of an earlier run over a kept ledger, and those of this run. */
const BLOCKS_APART = 1000
const FINISH_POLL_MS = 200

/** Starts the processes over a database that is migrated. `stop` leaves nothing behind that a later run would work on. */
export async function startSide(name: SideName, postgres: EmbeddedPostgres): Promise<Side> {
  const redis = await startTestRedis(DURABLE_REDIS)
  const [api, worker] = await Promise.all([findFreePort(), findFreePort()])
  const startMs = new Map<string, number>()
  const database = new pg.Pool({ connectionString: postgres.connectionString, max: 2 })
  await forgetOperators(database)
  const sandbox = await startFarebox({
    databaseUrl: postgres.connectionString,
    operator: true,
    firstBlock: await firstBlockAfter(database),
    outerServices: { QUEUE_URL: redis.url, QUEUE_PREFIX: '{farebox-bench}' },
    apiEnvironment: { METRICS_PORT: String(api) },
    workerEnvironment: { METRICS_PORT: String(worker) },
    onStep: (step, _, milliseconds) => startMs.set(step, milliseconds),
  })
  return {
    name,
    sandbox,
    database,
    wallets: await fundWallets(sandbox.info.rpcUrl),
    pids: {
      api: sandbox.pidOf('api'),
      worker: sandbox.pidOf('worker'),
      postgres: postgres.pid,
      chain: sandbox.pidOf('chain'),
      redis: redis.pid,
    },
    metricsPorts: { api, worker },
    startMs,
    stop: async () => {
      await sandbox.stop()
      await redis.stop()
      await forgetRun(database)
      await database.end()
    },
  }
}

/** Returns a block above all settlements, which would otherwise count as newer than any reading of funds. */
async function firstBlockAfter(database: pg.Pool): Promise<number> {
  const { rows } = await database.query<{ last: string | null }>(
    "SELECT max(block_number) AS last FROM settlements WHERE state = 'confirmed'",
  )
  return Number(rows[0]?.last ?? 0) + BLOCKS_APART
}

/** Of an earlier run over a ledger that was kept: nobody knows their passwords. */
async function forgetOperators(database: pg.Pool): Promise<void> {
  await database.query('DELETE FROM operator_sessions')
  await database.query('DELETE FROM operators')
}

/** The chain of this run is gone: a later worker would look for its blocks, and settle its payments again. */
async function forgetRun(database: pg.Pool): Promise<void> {
  // Each with the index of its own state.
  for (const state of ['confirmed', 'reverted'])
    await database.query(
      `UPDATE settlements SET finalized_at = now() WHERE state = '${state}' AND finalized_at IS NULL`,
    )
  await database.query('DELETE FROM idempotency_keys WHERE job_id IS NULL')
}

/** Waits until no job is unfinished. */
export async function untilFinished({ database }: Side): Promise<void> {
  for (;;) {
    const { rows } = await database.query(
      "SELECT FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling') LIMIT 1",
    )
    if (rows.length === 0) return
    await delay(FINISH_POLL_MS)
  }
}
