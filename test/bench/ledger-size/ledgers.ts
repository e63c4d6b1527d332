import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { migrateAll } from '../../../infra/commands/migrate/main.ts'
import { type EmbeddedPostgres, startPostgres } from '../../../infra/sandbox/postgres/embedded-postgres.ts'
import { startKeptHistoryDatabase } from '../console/history-database.ts'
import { WALLET_ADDRESSES } from './wallets.ts'

/** Older calls than this many have the rows that an archived call has: with all of them whole, 10 million take 70 GB. */
const WHOLE_CALLS = 500_000
const PAYERS = 4000
/** Of a server that is meant for such a ledger (`infra/capacity.md`). */
const [SHARED_BUFFERS_MEGABYTES, MAXIMUM_LOG_SIZE] = [4096, '8GB']

/** A ledger's PostgreSQL, which counts the time of each statement. */
export interface Ledger {
  readonly postgres: EmbeddedPostgres
  /** What was migrated, and how long each migration took. */
  readonly migrations: readonly string[]
  /** How long the history took to write; 0 when it was there. */
  readonly writtenSeconds: number
  stop(): Promise<void>
}

/** Starts a PostgreSQL with an empty ledger. `stop` removes it. */
export async function openEmptyLedger(): Promise<Ledger> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-empty-'))
  return await open(directory, () => startPostgres({ dataDirectory: join(directory, 'postgres') }), true)
}

/** Starts a PostgreSQL with a history, and writes it unless the directory has it. Without a directory, `stop` removes it. */
export async function openFullLedger(calls: number, directory?: string): Promise<Ledger> {
  const place = directory ?? (await mkdtemp(join(tmpdir(), 'farebox-full-')))
  const options = {
    calls,
    payers: PAYERS,
    wallets: WALLET_ADDRESSES,
    wholeCalls: WHOLE_CALLS,
    // So that no sweep erases results while calls are measured.
    resultDays: 0,
    connections: 2,
    onProgress: (line: string) => console.error(line),
  }
  return await open(place, () => startKeptHistoryDatabase(place, options), directory === undefined)
}

async function open(directory: string, start: () => Promise<EmbeddedPostgres>, isRemoved: boolean): Promise<Ledger> {
  const startedAt = performance.now()
  const first = await start()
  const writtenSeconds = (performance.now() - startedAt) / 1000
  await configure(first.connectionString)
  await first.stop()
  const postgres = await startPostgres({
    dataDirectory: join(directory, 'postgres'),
    sharedBuffersMegabytes: SHARED_BUFFERS_MEGABYTES,
  })
  const migrations: string[] = []
  await migrateAll(postgres.connectionString, { onProgress: (line) => migrations.push(line) })
  return {
    postgres,
    migrations: migrations.filter((line) => line.includes('applied in')),
    writtenSeconds,
    stop: async () => {
      await postgres.stop()
      if (isRemoved) await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Statements are only counted by a server that has loaded the extension when it starts. */
async function configure(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    await client.query("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
    await client.query(`ALTER SYSTEM SET max_wal_size = '${MAXIMUM_LOG_SIZE}'`)
  } finally {
    await client.end()
  }
}
