import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrateAll } from '../../../infra/commands/migrate.ts'
import { type EmbeddedPostgres, startPostgres } from '../../../infra/sandbox/postgres/embedded-postgres.ts'
import { type HistoryOptions, writeHistory } from '../../support/ledger/history/write-history.ts'

/** Starts a PostgreSQL whose ledger has a history. `stop` removes it. */
export async function startHistoryDatabase(options: HistoryOptions): Promise<EmbeddedPostgres> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-history-'))
  const dataDirectory = join(directory, 'postgres')
  // Nothing to lose while it is written. Paid calls are measured on a server that waits for its disk.
  const writing = await startPostgres({ dataDirectory, isDurable: false })
  try {
    await migrateAll(writing.connectionString)
    await writeHistory(writing.connectionString, options)
  } finally {
    await writing.stop()
  }
  const postgres = await startPostgres({ dataDirectory })
  return {
    ...postgres,
    stop: async () => {
      await postgres.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
