import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { migrateAll } from '../../../infra/commands/migrate/main.ts'
import { type EmbeddedPostgres, startPostgres } from '../../../infra/sandbox/postgres/embedded-postgres.ts'
import { type HistoryOptions, writeHistory } from '../../support/ledger/history/write-history.ts'

/** While nothing can be lost: no page is written twice, and nothing cleans up behind an insertion. */
const WHILE_WRITING = {
  autovacuum: 'off',
  full_page_writes: 'off',
  max_wal_size: "'8GB'",
  checkpoint_timeout: "'30min'",
}
/** Next to the data of a history that is complete. */
const COMPLETE_FILE = 'complete.json'

/** Starts a PostgreSQL whose ledger has a history. `stop` removes it. */
export async function startHistoryDatabase(options: HistoryOptions): Promise<EmbeddedPostgres> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-history-'))
  const postgres = await startKeptHistoryDatabase(directory, options)
  return {
    ...postgres,
    stop: async () => {
      await postgres.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/**
 * Starts a PostgreSQL whose ledger has a history, in a directory that is kept: written the first time, and found again
 * later. Throws when the directory has one with another number of calls.
 */
export async function startKeptHistoryDatabase(directory: string, options: HistoryOptions): Promise<EmbeddedPostgres> {
  const dataDirectory = join(directory, 'postgres')
  const complete = await readFile(join(directory, COMPLETE_FILE), 'utf8').catch(() => undefined)
  if (complete === undefined) {
    await write(dataDirectory, options)
    await writeFile(join(directory, COMPLETE_FILE), JSON.stringify({ calls: options.calls }))
  } else if ((JSON.parse(complete) as { calls: number }).calls !== options.calls)
    throw new Error(`${directory} has another history: ${complete}. Name another directory, or that number of calls.`)
  return await startPostgres({ dataDirectory })
}

async function write(dataDirectory: string, options: HistoryOptions): Promise<void> {
  // Paid calls are measured on a server that waits for its disk.
  const writing = await startPostgres({ dataDirectory, isDurable: false })
  const client = new pg.Client({ connectionString: writing.connectionString })
  await client.connect()
  try {
    for (const [name, value] of Object.entries(WHILE_WRITING)) await client.query(`ALTER SYSTEM SET ${name} = ${value}`)
    await client.query('SELECT pg_reload_conf()')
    await migrateAll(writing.connectionString)
    await writeHistory(writing.connectionString, options)
    for (const name of Object.keys(WHILE_WRITING)) await client.query(`ALTER SYSTEM RESET ${name}`)
  } finally {
    await client.end()
    await writing.stop()
  }
}
