import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { migrateAll } from '../../infra/commands/migrate.ts'
import { startPostgres } from '../../infra/sandbox/embedded-postgres.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** A server whose database `farebox` is migrated and otherwise empty: the template of every test database. */
    templateUrl: string
  }
}

/** One PostgreSQL for the whole run; each test file copies the template (`createTestDatabase`). */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-test-'))
  const postgres = await startPostgres({ dataDirectory: join(directory, 'postgres') })
  await migrateAll(postgres.connectionString)
  project.provide('templateUrl', postgres.connectionString)
  return async () => {
    await postgres.stop()
    await rm(directory, { recursive: true, force: true })
  }
}
