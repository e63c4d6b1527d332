import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLedgerCheck } from '#shared/ledger/check-schema.ts'
import { migrate } from '#shared/ledger/migrate.ts'
import { readMigrations } from '#shared/ledger/migration-files.ts'
import { createPool } from '#shared/ledger/pool.ts'
import { migrateAll } from '../../../infra/commands/migrate/main.ts'
import { askSharedServices } from '../../support/processes/ask-shared-services.ts'
import { until } from '../../support/until.ts'

const COMMAND = fileURLToPath(new URL('../../../infra/commands/migrate/main.ts', import.meta.url))
const SERVICE_POOL = { maximumConnections: 1, applicationName: 'farebox migrate', onError: () => undefined }
const databases: string[] = []
const folders: URL[] = []
let templateUrl: string
let administrator: pg.Client
beforeAll(async () => {
  templateUrl = await askSharedServices('/postgres')
  administrator = new pg.Client({ connectionString: urlOf('postgres') })
  await administrator.connect()
})
afterAll(async () => {
  for (const name of databases) await administrator.query(`DROP DATABASE ${name} WITH (FORCE)`)
  await administrator.end()
  for (const folder of folders) await rm(folder, { recursive: true, force: true })
})
async function folderOf(files: Record<string, string>): Promise<URL> {
  const folder = pathToFileURL(`${await mkdtemp(join(tmpdir(), 'farebox-migrations-'))}/`)
  folders.push(folder)
  for (const [name, text] of Object.entries(files)) await writeFile(new URL(name, folder), text)
  return folder
}
async function tablesOf(pool: pg.Pool): Promise<readonly string[]> {
  const { rows } = await pool.query<{ name: string }>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename",
  )
  return rows.map(({ name }) => name)
}
/** Waits until a statement that contains `text` waits for a lock. */
async function untilWaiting(pool: pg.Pool, text: string): Promise<void> {
  await until(async () => {
    const { rows } = await pool.query(
      "SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%' || $1 || '%' AND wait_event_type = 'Lock'",
      [text],
    )
    return rows.length > 0
  })
}
function urlOf(database: string): string {
  const url = new URL(templateUrl)
  url.pathname = `/${database}`
  return url.href
}
async function createEmptyDatabase(): Promise<string> {
  const name = `empty_${randomBytes(6).toString('hex')}`
  await administrator.query(`CREATE DATABASE ${name} TEMPLATE template0`)
  databases.push(name)
  return urlOf(name)
}
async function withPool<T>(url: string, work: (pool: pg.Pool) => Promise<T>): Promise<T> {
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  try {
    return await work(pool)
  } finally {
    await pool.end()
  }
}
it('runs every migration once and nothing when repeated, and leaves every constraint and index valid', async () => {
  const url = await createEmptyDatabase()
  const applied = await migrateAll(url)
  expect(applied[0]).toBe('0001-schema.sql')
  expect(applied).toEqual([...applied].sort())
  expect(await migrateAll(url)).toEqual([])
  await withPool(url, async (pool) => {
    const { rows } = await pool.query(
      `SELECT conname FROM pg_constraint WHERE NOT convalidated
       UNION ALL SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid`,
    )
    expect(rows).toEqual([])
  })
})
it('lets two processes migrate one empty database concurrently; only one of them does the work', async () => {
  const url = await createEmptyDatabase()
  const run = () => promisify(execFile)(process.execPath, [COMMAND], { env: { ...process.env, DATABASE_URL: url } })
  const outputs = await Promise.all([run(), run()])
  const applied = outputs.filter(({ stdout }) => stdout.startsWith('Applied '))
  const idle = outputs.filter(({ stdout }) => stdout.startsWith('The schema is up to date'))
  expect([applied.length, idle.length]).toEqual([1, 1])
})
it('rejects a migration that was edited after it was applied and runs nothing', async () => {
  const url = await createEmptyDatabase()
  await withPool(url, async (pool) => {
    await migrate(pool)
    await pool.query("UPDATE schema_migrations SET digest = 'digest of an earlier version'")
    await pool.query('DROP TABLE receipts CASCADE')
    await expect(migrate(pool)).rejects.toThrow('was changed after it was applied')
    const { rows } = await pool.query<{ exists: boolean }>("SELECT to_regclass('receipts') IS NOT NULL AS exists")
    expect(rows).toEqual([{ exists: false }])
  })
})
it('leaves nothing of a migration that fails halfway, and keeps those before it', async () => {
  const url = await createEmptyDatabase()
  const folder = await folderOf({
    '0001-first.sql': 'CREATE TABLE first (id int)',
    '0002-second.sql': 'CREATE TABLE second (id int); SELECT 1 / 0',
  })
  await withPool(url, async (pool) => {
    await expect(migrate(pool, { folder })).rejects.toThrow('0002-second.sql: division by zero')
    expect(await tablesOf(pool)).toEqual(['first', 'schema_migrations'])
    await writeFile(new URL('0002-second.sql', folder), 'CREATE TABLE second (id int)')
    expect(await migrate(pool, { folder })).toEqual(['0002-second.sql'])
  })
})
it('has no time limit for a statement', async () => {
  const url = await createEmptyDatabase()
  const folder = await folderOf({
    '0001-settings.sql': `DO $$ BEGIN
      ASSERT current_setting('statement_timeout') = '0', 'a statement has a time limit'; END $$`,
  })
  const pool = createPool({ ...SERVICE_POOL, connectionString: url, statementTimeoutMs: 0 })
  try {
    expect(pool.options).toMatchObject({ statement_timeout: 0, query_timeout: 0 })
    expect(await migrate(pool, { folder })).toEqual(['0001-settings.sql'])
  } finally {
    await pool.end()
  }
})
it.each([
  ['in a transaction', ''],
  ['without one', '-- farebox: no-transaction\n'],
])(
  'lets statements pass while a migration %s waits for a lock, and applies it when the lock is free',
  async (_, directive) => {
    const url = await createEmptyDatabase()
    const folder = await folderOf({
      '0001-first.sql': 'CREATE TABLE first (id int)',
    })
    await withPool(url, (pool) => migrate(pool, { folder }))
    await writeFile(new URL('0002-second.sql', folder), `${directive}ALTER TABLE first ADD COLUMN name text`)
    const progress: string[] = []
    await withPool(url, async (pool) => {
      const report = new pg.Client({ connectionString: url, application_name: 'a long report' })
      await report.connect()
      await report.query('BEGIN; SELECT * FROM first')
      const migrating = withPool(url, (own) => migrate(own, { folder, onProgress: (line) => progress.push(line) }))
      await until(() => progress.some((line) => line.includes('blocked')))
      // Waits behind the migration's lock at most until its timeout.
      await pool.query('INSERT INTO first (id) VALUES (1)')
      await report.query('COMMIT')
      await report.end()
      expect(await migrating).toEqual(['0002-second.sql'])
    })
    expect(progress.find((line) => line.includes('blocked'))).toMatch(
      /^0002-second\.sql: blocked \(.*lock timeout\); next attempt in 1000 ms\. The oldest transactions: "a long report" \(pid \d+, for \d+ s\)\.$/,
    )
  },
)
it.each([
  ['nothing of it', '', 'Nothing of this migration was applied'],
  [
    'how much of it, without a transaction,',
    '-- farebox: no-transaction\n',
    'What this migration did before stays, and may be repeated',
  ],
])(
  'gives up on a migration that stays blocked, names what blocks it and says that %s was applied',
  async (_, first, applied) => {
    const url = await createEmptyDatabase()
    const folder = await folderOf({ '0001-first.sql': 'CREATE TABLE first (id int)' })
    await withPool(url, async (pool) => {
      await migrate(pool, { folder })
      await writeFile(
        new URL('0002-second.sql', folder),
        `${first}ALTER TABLE first ADD COLUMN IF NOT EXISTS name text;\n`,
      )
      const report = new pg.Client({ connectionString: url, application_name: 'a long report' })
      await report.connect()
      await report.query('BEGIN; SELECT * FROM first')
      await expect(migrate(pool, { folder, lockTimeoutMs: 50, giveUpAfterMs: 100 })).rejects.toThrow(
        new RegExp(
          `^0002-second\\.sql: no lock within 50 ms.*"a long report".*${applied}; end those transactions and repeat`,
        ),
      )
      await report.end()
      expect(await migrate(pool, { folder })).toEqual(['0002-second.sql'])
    })
  },
)
const build = (kind: string) =>
  `-- farebox: no-transaction\n-- A comment; with a semicolon.\nDROP INDEX CONCURRENTLY IF EXISTS by_id;\nCREATE ${kind} CONCURRENTLY by_id ON first (id);\n`
it('builds an index without blocking writes, and repeats it after an interruption, in a file without a transaction', async () => {
  const url = await createEmptyDatabase()
  const folder = await folderOf({ '0001-first.sql': 'CREATE TABLE first (id int)' })
  await withPool(url, async (pool) => {
    await migrate(pool, { folder })
    await pool.query('INSERT INTO first VALUES (1), (1)')
    await writeFile(new URL('0002-index.sql', folder), build('UNIQUE INDEX'))
    await expect(migrate(pool, { folder })).rejects.toThrow('0002-index.sql: could not create unique index')
    await writeFile(new URL('0002-index.sql', folder), build('INDEX'))
    const writer = new pg.Client({ connectionString: url })
    await writer.connect()
    await writer.query('BEGIN; INSERT INTO first VALUES (2)')
    const [one, other] = [0, 1].map(() => withPool(url, (own) => migrate(own, { folder })))
    // The index waits for this transaction, and another one can still write.
    await untilWaiting(pool, 'INDEX CONCURRENTLY')
    await pool.query('INSERT INTO first VALUES (3)')
    await writer.query('COMMIT')
    await writer.end()
    expect([...((await one) ?? []), ...((await other) ?? [])]).toEqual(['0002-index.sql'])
    const { rows } = await pool.query("SELECT indisvalid FROM pg_index WHERE indexrelid = 'by_id'::regclass")
    expect(rows).toEqual([{ indisvalid: true }])
  })
})
it('names an earlier migration wherever a migration says which programs it is compatible with', async () => {
  for (const { name, compatibleFrom } of await readMigrations()) {
    if (compatibleFrom === null) continue
    expect(compatibleFrom < name).toBe(true)
    expect((await readMigrations()).map((each) => each.name)).toContain(compatibleFrom)
  }
})
it('refuses a file with a directive that it does not know', async () => {
  const folder = await folderOf({ '0001-first.sql': '-- farebox: no-transactions\nSELECT 1' })
  await withPool(templateUrl, async (pool) => {
    await expect(migrate(pool, { folder })).rejects.toThrow('unknown directive: -- farebox: no-transactions')
  })
})
/** Returns how a program judges this version's schema after a migration of a later one. */
async function judgeAfter(text: string): Promise<string> {
  const url = await createEmptyDatabase()
  await migrateAll(url)
  const folder = await folderOf({ '9999-of-tomorrow.sql': text })
  return await withPool(url, async (pool) => {
    await migrate(pool, { folder })
    const check = createLedgerCheck({ pool, databaseUrl: url, now: () => new Date() })
    return await check.schema().then(
      () => 'starts',
      (error: unknown) => String(error),
    )
  })
}

describe('a database that a newer version has migrated', () => {
  it('is used when its migrations are compatible with a version that this program includes', async () => {
    expect(await judgeAfter('-- farebox: compatible-from 0001-schema.sql\nCREATE TABLE tomorrow (id int)')).toBe(
      'starts',
    )
  })

  it.each([
    ['say nothing about older programs', ''],
    ['need a program that is newer than this one', '-- farebox: compatible-from 9998-of-this-evening.sql\n'],
  ])('is refused when its migrations %s', async (_, directive) => {
    expect(await judgeAfter(`${directive}CREATE TABLE tomorrow (id int)`)).toMatch(
      /is newer than this program, which cannot work with 9999-of-tomorrow\.sql; start a newer one/,
    )
  })
})

/** Runs `work` on a migrated database in which a worker was seen so long ago. */
async function withRunningProcess(seen: string, work: (pool: pg.Pool, url: string) => Promise<void>): Promise<void> {
  const url = await createEmptyDatabase()
  await migrateAll(url)
  await withPool(url, async (pool) => {
    await pool.query(
      `INSERT INTO process_reports (instance, kind, started_at, seen_at, report)
       VALUES ('host-1', 'worker', now(), now() - $1::interval, '{}')`,
      [seen],
    )
    await work(pool, url)
  })
}

describe('a migration that the programs which run now do not work with', () => {
  const INCOMPATIBLE = 'ALTER TABLE jobs RENAME COLUMN request_id TO caller_request_id'

  it.each([
    ['says nothing about older programs', '', []],
    ['needs programs of a migration beside it', '-- farebox: compatible-from 0002-first.sql\n', ['0002-first.sql']],
  ])('is refused while one of them reports: it %s', async (_, directive, before) => {
    await withRunningProcess('1 second', async (pool) => {
      const first = { '0002-first.sql': '-- farebox: compatible-from 0001-schema.sql\nSELECT 1' }
      const folder = await folderOf({
        ...(before.length > 0 ? first : {}),
        '0003-second.sql': `${directive}${INCOMPATIBLE}`,
      })
      await expect(migrate(pool, { folder })).rejects.toThrow(
        '0003-second.sql: programs that run now do not work with it; stop them first, and repeat after 10 seconds: worker host-1',
      )
      const { rows } = await pool.query("SELECT name FROM schema_migrations WHERE name > '0002' ORDER BY name")
      expect(rows.map(({ name }) => name)).toEqual(before)
    })
  })

  it('is applied once none of them reports any more', async () => {
    await withRunningProcess('11 seconds', async (pool) => {
      expect(await migrate(pool, { folder: await folderOf({ '0002-next.sql': INCOMPATIBLE }) })).toEqual([
        '0002-next.sql',
      ])
    })
  })
})

/** Creates a database with the records of a version before 1.0, and one of its tables with a row. */
async function createEarlierDatabase(): Promise<string> {
  const url = await createEmptyDatabase()
  await withPool(url, (pool) =>
    pool.query(`CREATE TABLE schema_migrations (name text PRIMARY KEY, digest text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
      CREATE TABLE schema_additions (name text PRIMARY KEY, digest text NOT NULL, compatible_from text NOT NULL);
      INSERT INTO schema_migrations VALUES ('0001-paid-requests.sql', 'x'); CREATE TABLE jobs (id int); INSERT INTO jobs VALUES (1)`),
  )
  return url
}
describe('a database of a version before 1.0', () => {
  const SENTENCE = 'the schema is of a version before 1.0, which cannot be migrated: use an empty database'

  it('is refused by the migration, which says what to do and changes nothing', async () => {
    const url = await createEarlierDatabase()
    const run = promisify(execFile)(process.execPath, [COMMAND], { env: { ...process.env, DATABASE_URL: url } })
    await expect(run).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining(SENTENCE) })
    await withPool(url, async (pool) => {
      expect(await tablesOf(pool)).toEqual(['jobs', 'schema_additions', 'schema_migrations'])
      expect((await pool.query('SELECT id FROM jobs')).rows).toEqual([{ id: 1 }])
    })
  })

  it('is refused at the start of a process', async () => {
    const url = await createEarlierDatabase()
    await withPool(url, async (pool) => {
      const check = createLedgerCheck({ pool, databaseUrl: url, now: () => new Date() })
      await expect(check.schema()).rejects.toThrow(
        new RegExp(`^DATABASE_URL: the database at \\S+ cannot be used: ${SENTENCE}$`),
      )
    })
  })
})
