import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrateAll } from '../../../infra/commands/migrate/main.ts'
import { type EmbeddedPostgres, startPostgres } from '../../../infra/sandbox/postgres/embedded-postgres.ts'
import { serviceUrlOf } from '../../../infra/sandbox/postgres/service-connection.ts'
import { type Sandbox, type SandboxInfo, startSandbox } from '../../../infra/sandbox/sandbox.ts'
import { copyDatabase } from '../ledger/test-database.ts'
import { PATIENT_SETTINGS } from '../patience.ts'

/** Several test files run concurrently, each with its pools. */
const MAXIMUM_CONNECTIONS = 500

/** Where the sandbox is that test files use one after another. */
export interface SharedSandboxPlace {
  readonly info: SandboxInfo
  readonly directory: string
}

/**
 * Serves what test files share, started at the first request: one PostgreSQL with a migrated template database, and a
 * sandbox for each of vitest's workers. Runs in vitest's main process, which outlives the workers.
 *
 * `GET /postgres` returns the template's connection string, `GET /sandboxes/<worker>` a {@link SharedSandboxPlace}.
 */
export interface SharedServices {
  readonly url: string
  stop(): Promise<void>
}

export async function startSharedServices(): Promise<SharedServices> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-test-'))
  const sandboxes = new Map<string, Promise<Sandbox>>()
  let postgres: Promise<EmbeddedPostgres> | undefined
  const database = async () => {
    postgres ??= startTemplate(join(directory, 'postgres'))
    return (await postgres).connectionString
  }
  const startShared = async (worker: string) =>
    startSandbox({
      directory: join(directory, `sandbox-${worker}`),
      upstreamEntry: 'test/support/vendors/hearing-vendors.ts',
      databaseUrl: (await copyDatabase(await database())).url,
      // Thousands of requests a minute, and a new payer for each test, come from one address.
      apiEnvironment: {
        ...PATIENT_SETTINGS,
        REQUESTS_PER_MINUTE: '1000000',
        NEW_PAYER_DAILY_LOSS_USDC: '1000000',
        NEW_PAYER_VERIFICATIONS_PER_MINUTE: '1000000',
        UNPAID_AUDIO_MINUTES_PER_MINUTE: '1000000',
      },
      workerEnvironment: PATIENT_SETTINGS,
    })
  const answer = async (path: string): Promise<unknown> => {
    if (path === '/postgres') return await database()
    const worker = path.slice('/sandboxes/'.length)
    const started = sandboxes.get(worker) ?? startShared(worker)
    sandboxes.set(worker, started)
    const place: SharedSandboxPlace = { info: (await started).info, directory: join(directory, `sandbox-${worker}`) }
    return place
  }
  const server = createServer((request, response) => {
    // A test file that computes for seconds would find a kept connection closed.
    response.setHeader('connection', 'close')
    answer(request.url ?? '').then(
      (value) => response.end(JSON.stringify(value)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: async () => {
      server.close()
      server.closeAllConnections()
      const started = await Promise.allSettled(sandboxes.values())
      await Promise.all(started.flatMap((one) => (one.status === 'fulfilled' ? [one.value.stop()] : [])))
      await (await postgres?.catch(() => undefined))?.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

async function startTemplate(dataDirectory: string): Promise<EmbeddedPostgres> {
  const postgres = await startPostgres({ dataDirectory, maximumConnections: MAXIMUM_CONNECTIONS, isDurable: false })
  await migrateAll(postgres.connectionString, { serviceUrl: serviceUrlOf(postgres.connectionString) })
  return postgres
}
