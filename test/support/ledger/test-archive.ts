import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createDiskObjectStore } from '#shared/adapters/disk/disk-store.ts'
import { createReceiptArchive } from '#shared/archive/receipt-archive.ts'
import { type AcceptanceStore, createAcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import { main } from '../../../infra/commands/archive/main.ts'
import { callCommand } from '../processes/call-command.ts'
import type { CommandRun } from '../processes/run-program.ts'
import { TEST_LIMITS, type TestLedger } from './test-ledger.ts'

/** A ledger's archive in a folder. */
export interface TestArchive {
  readonly directory: string
  readonly objects: ObjectStore
  /** The settings with which the command runs. */
  readonly environment: Readonly<Record<string, string>>
  /** Calls `npm run archive` in this process. */
  run(...programArguments: readonly string[]): Promise<CommandRun>
  /** Returns the paths of the stored objects. */
  files(): Promise<readonly string[]>
  /** Opens a reader, by default of this archive. */
  openReader(objects?: Pick<ObjectStore, 'get'>): AcceptanceStore
  close(): Promise<void>
}

export async function createTestArchive(ledger: TestLedger): Promise<TestArchive> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-archive-'))
  const objects = createDiskObjectStore(directory)
  const environment = { DATABASE_URL: ledger.url, OBJECT_STORE_DIRECTORY: directory }
  const folder = join(directory, 'archive/calls')
  return {
    directory,
    objects,
    environment,
    run: (...programArguments) => callCommand(() => main(programArguments, environment)),
    files: async () => (await readdir(folder).catch(() => [])).map((name) => join(folder, name)),
    openReader: (source = objects) => openReader(ledger, source),
    close: () => rm(directory, { recursive: true, force: true }),
  }
}

/** Returns the API's store as a new process opens it, which has read no object. */
export function openReader({ pool }: Pick<TestLedger, 'pool'>, objects: Pick<ObjectStore, 'get'>): AcceptanceStore {
  return createAcceptanceStore(pool, TEST_LIMITS, createReceiptArchive(objects))
}
