import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { migrateQueue, openJobQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { until } from '../../support/until.ts'

const PREFIX = '{farebox-test}'
/** BullMQ's own migrations, which it does not export. */
const { MIGRATIONS } = createRequire(import.meta.url)('bullmq/dist/cjs/postgres/migrations/index.js') as {
  readonly MIGRATIONS: readonly { version: number; name: string; minClientVersion: number; load(): string }[]
}

const newestOfBullmq = Math.max(...MIGRATIONS.map(({ version }) => version))

describe('the tables of the queue in PostgreSQL', () => {
  let ledger: TestLedger
  let other: pg.Client
  beforeEach(async () => {
    ledger = await createTestLedger(2)
    other = new pg.Client({ connectionString: ledger.url, application_name: 'somebody else' })
    await other.connect()
  })
  afterEach(async () => {
    await other.end()
    await ledger.close()
  })

  const open = (onError: (error: Error) => void = () => undefined) =>
    openJobQueue({ DATABASE_URL: ledger.url, QUEUE_PREFIX: PREFIX }, onError)
  /** Opens a snapshot that has read the table of the queue's version, as a dump does. */
  const openSnapshot = async () => {
    await other.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await other.query('SELECT count(*) FROM farebox_queue.migration')
  }
  /** Replaces the tables by those of an earlier BullMQ. */
  const createTablesOf = async (version: number) => {
    const older = MIGRATIONS.filter((migration) => migration.version <= version)
    await other.query('DROP SCHEMA farebox_queue CASCADE; CREATE SCHEMA farebox_queue; SET search_path = farebox_queue')
    await other.query(
      `CREATE TABLE migration (version integer PRIMARY KEY, name text NOT NULL, min_client_version integer NOT NULL,
         applied_at timestamptz NOT NULL DEFAULT now())`,
    )
    for (const migration of older) {
      await other.query(migration.load())
      const row = [migration.version, migration.name, migration.minClientVersion]
      await other.query('INSERT INTO migration (version, name, min_client_version) VALUES ($1, $2, $3)', row)
    }
    await other.query('RESET search_path')
  }
  const readVersion = async () =>
    (await ledger.sql<{ version: number }>('SELECT max(version) AS version FROM farebox_queue.migration'))[0]?.version

  it('are migrated without any lock when nothing is missing, beside an open snapshot', async () => {
    await openSnapshot()
    const lines: string[] = []
    await migrateQueue(ledger.url, { onProgress: (line) => lines.push(line) })
    expect(lines).toEqual([])
  })

  it('get a missing sequence back', async () => {
    const sequences = () =>
      ledger.sql("SELECT sequencename FROM pg_sequences WHERE schemaname = 'farebox_queue' ORDER BY 1")
    const all = (await sequences()).length
    const [{ name } = { name: '' }] = await ledger.sql<{ name: string }>(
      "SELECT farebox_queue.job_id_seq_name('text') AS name",
    )
    await ledger.sql(`DROP SEQUENCE farebox_queue.${name}`)
    await migrateQueue(ledger.url)
    expect((await sequences()).length).toBe(all)
  })

  it('record no events, also when they were migrated by BullMQ itself', async () => {
    const readBody = async () =>
      (await ledger.sql<{ body: string }>("SELECT prosrc AS body FROM pg_proc WHERE proname = 'publish_event'"))[0]
        ?.body
    const ours = await readBody()
    await createTablesOf(newestOfBullmq)
    expect(await readBody()).toContain('INSERT INTO event')
    await migrateQueue(ledger.url)
    expect(await readBody()).toBe(ours)
    expect(ours).not.toContain('INSERT')
  })

  it('are created where there are none', async () => {
    const newest = await readVersion()
    await ledger.sql('DROP SCHEMA farebox_queue CASCADE')
    await migrateQueue(ledger.url)
    expect(await readVersion()).toBe(newest)
  })

  it.each([3, 10])(
    'are migrated from version %d once a snapshot of them ends, and can be read until then',
    async (from) => {
      const newest = await readVersion()
      await createTablesOf(from)
      await openSnapshot()
      const lines: string[] = []
      const migrating = migrateQueue(ledger.url, { onProgress: (line) => lines.push(line) })
      const blocked = /: blocked .*lock timeout.*"somebody else" \(pid \d+, for \d+ s\)/
      await until(() => lines.some((line) => blocked.test(line)))
      expect(await readVersion()).toBe(from)
      await other.query('ROLLBACK')
      await migrating
      expect(await readVersion()).toBe(newest)
      const queue = await open()
      await queue.enqueue(randomUUID(), 'text')
      await queue.close()
    },
  )

  it('are left as they are by a migration that gives up, and names who is in its way', async () => {
    await createTablesOf(10)
    await openSnapshot()
    await expect(migrateQueue(ledger.url, { giveUpAfterMs: 0 })).rejects.toThrow(
      /farebox_queue \d+: no lock within 300 ms.*"somebody else".*Nothing of the queue’s migrations was applied; end those/,
    )
    expect(await readVersion()).toBe(10)
  })

  it.each([3, 10])('refuse this program when they are of version %d', async (version) => {
    await createTablesOf(version)
    await expect(open()).rejects.toThrow(
      new RegExp(
        `^DATABASE_URL: the queue at .* has version ${version}, and this program needs \\d+; run npm run migrate`,
      ),
    )
  })

  it('accept this program when they are newer and say that it may use them, and refuse it otherwise', async () => {
    await ledger.sql("INSERT INTO farebox_queue.migration (version, name, min_client_version) VALUES (999, 'later', 6)")
    await (await open()).close()
    await ledger.sql('UPDATE farebox_queue.migration SET min_client_version = 7 WHERE version = 999')
    await expect(open()).rejects.toThrow('requires BullMQ major version 7')
  })

  it.each(['migration', 'meta'])('are waited for when %s is locked, and the wait is named', async (table) => {
    await other.query(`BEGIN; LOCK TABLE farebox_queue.${table}`)
    const errors: Error[] = []
    const queue = await open((error) => errors.push(error))
    const named = new RegExp(
      `^DATABASE_URL: the queue is waiting since 20.* for the table farebox_queue.${table}, held by "somebody else" \\(pid`,
    )
    await until(() => errors.some(({ message }) => named.test(message)))
    await other.query('ROLLBACK')
    await until(() =>
      queue.enqueue(randomUUID(), 'text').then(
        () => true,
        () => false,
      ),
    )
    await queue.close()
  })
})
