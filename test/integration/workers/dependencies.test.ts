import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { StartFailure } from '#shared/runtime/start-process.ts'
import { readConfig } from '../../../workers/config.ts'
import { createDependencies } from '../../../workers/dependencies.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

let ledger: TestLedger
let directory: string
beforeAll(async () => {
  ledger = await createTestLedger()
  directory = await mkdtemp(join(tmpdir(), 'farebox-dependencies-'))
  await writeFile(join(directory, 'deployments.json'), '{ "deployments": [] }')
})
afterAll(async () => {
  await ledger.close()
  await rm(directory, { recursive: true, force: true })
})

const configOf = (deployments: string) =>
  readConfig({
    DATABASE_URL: ledger.url,
    RPC_URL: 'http://127.0.0.1:9',
    SETTLEMENT_PRIVATE_KEYS: `0x${'1'.repeat(64)}`,
    RECEIPT_SECRET_ID: 'first',
    PUBLIC_BASE_URL: 'http://api.test',
    OBJECT_STORE_DIRECTORY: directory,
    DEPLOYMENTS_FILE: join(directory, deployments),
    LOG_LEVEL: 'silent',
  })

/** Counts the connections to the ledger's database other than this test's. */
async function connections(): Promise<number> {
  const [row] = await ledger.sql<{ count: number }>(
    `SELECT count(*)::int AS count FROM pg_stat_activity
     WHERE datname = current_database() AND backend_type = 'client backend' AND application_name <> 'farebox ledger test'`,
  )
  return row?.count ?? -1
}

test('closing the dependencies of a worker closes every connection', async () => {
  const dependencies = await createDependencies(configOf('deployments.json'))
  expect(await connections()).toBeGreaterThan(0)
  await dependencies.close()
  await expect.poll(connections).toBe(0)
})

test('a failed start names the setting and closes what was opened', async () => {
  const start = createDependencies(configOf('missing.json'))
  await expect(start).rejects.toThrow(StartFailure)
  await expect(start).rejects.toThrow('DEPLOYMENTS_FILE')
  await expect.poll(connections).toBe(0)
})
