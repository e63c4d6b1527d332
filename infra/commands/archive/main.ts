import { openArchive } from '#shared/adapters/open-stores.ts'
import { type ArchiveStore, createArchiveStore } from '#shared/ledger/archive/archive-store.ts'
import { createLedgerCheck } from '#shared/ledger/check-schema.ts'
import { LONGEST_SNAPSHOT_MS, withConnection } from '#shared/ledger/with-connection.ts'
import type { OpenedArchive } from '#shared/media/object-store.ts'
import { PROGRAM_VERSION } from '#shared/runtime/program-version.ts'
import { createMain, Refusal } from '../command-line.ts'
import { archiveMonths, createProgress, renderTotals } from './archive-months.ts'
import { type ArchiveOptions, addOptions, readOptions } from './options.ts'
import { readCall, verifyObjects } from './read-objects.ts'

/** One for the run's lock and cursor, one for its statements. */
const CONNECTIONS = 2

/** Runs the command and returns its exit code. */
export const main = createMain('archive', (command, run) =>
  addOptions(command).action(
    run(async (flags, settings) => {
      const options = readOptions(flags, settings)
      await withStores(options, (store, archive) => perform(options, store, archive))
    }),
  ),
)

async function withStores(
  { databaseUrl, store: settings }: ArchiveOptions,
  work: (store: ArchiveStore, archive: OpenedArchive) => Promise<void>,
): Promise<void> {
  const archive = await openArchive(settings)
  const connection = {
    connectionString: databaseUrl,
    applicationName: 'farebox archive',
    maximumConnections: CONNECTIONS,
    statementTimeoutMs: LONGEST_SNAPSHOT_MS,
  }
  try {
    await withConnection(connection, async (pool) => {
      await createLedgerCheck({ pool, databaseUrl, now: () => new Date() }).schema()
      await work(createArchiveStore(pool), archive)
    })
  } finally {
    archive.close()
  }
}

async function perform(options: ArchiveOptions, store: ArchiveStore, archive: OpenedArchive): Promise<void> {
  switch (options.task) {
    case 'count':
      return await count(store, options.before)
    case 'verify':
      return await verify(store, archive)
    case 'show':
      return await show(store, archive, options.id ?? '')
    case 'archive':
      return await run(store, archive, options.before)
  }
}

async function count(store: ArchiveStore, before: string): Promise<void> {
  let found = 0
  for (const month of await store.findMonths(before)) {
    const totals = await store.readTotals(month)
    if (totals.calls + totals.remaining === 0) continue
    found += totals.calls
    console.log(renderTotals(totals))
  }
  console.log(found === 0 ? `Nothing before ${before} is left to archive.` : 'Nothing was changed.')
}

async function verify(store: ArchiveStore, { objects }: OpenedArchive): Promise<void> {
  const { objects: count, damaged } = await verifyObjects(store, objects)
  if (damaged.length > 0)
    throw new Refusal([...damaged, `${damaged.length} of ${count} objects: restore them from a backup.`].join('\n'))
  console.log(`${count} objects are as they were archived.`)
}

async function show(store: ArchiveStore, { objects }: OpenedArchive, id: string): Promise<void> {
  const call = await store.findCall(id)
  if (!call) throw new Refusal(`No documents of ${id} are archived.`)
  console.log(JSON.stringify(await readCall(objects, call), null, 2))
}

async function run(store: ArchiveStore, archive: OpenedArchive, before: string): Promise<void> {
  const rule = await archive.findExpiringRule()
  if (rule !== null)
    throw new Refusal(
      `S3_BUCKET: the lifecycle rule ${rule} would delete archived receipts. Limit it to another prefix than archive/.`,
    )
  const others = await store.findOtherProcesses(PROGRAM_VERSION)
  if (others.length > 0)
    throw new Refusal(
      [
        `Nothing was archived: these processes are not of version ${PROGRAM_VERSION}, and could not read an archived receipt.`,
        ...others.map(({ kind, instance, version }) => `  ${kind} ${instance}: ${version}`),
      ].join('\n'),
    )
  await using archiving = await store.begin()
  if (!archiving) throw new Refusal('Nothing was archived: another run is under way.')
  await archiveMonths(store, { run: archiving, objects: archive.objects, onProgress: createProgress() }, before)
  console.log(`Everything that finished before ${before} and is over is archived.`)
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process.env)
