import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { migrate } from '#shared/adapters/postgres/migrate.ts'
import { migrateAll } from '../../../infra/commands/migrate.ts'
import { askSharedServices } from '../../support/processes/ask-shared-services.ts'

const COMMAND = fileURLToPath(new URL('../../../infra/commands/migrate.ts', import.meta.url))

const databases: string[] = []
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
})

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

it('runs every migration once and nothing when repeated', async () => {
  const url = await createEmptyDatabase()
  const applied = await migrateAll(url)
  expect(applied[0]).toBe('0001-paid-requests.sql')
  expect(applied).toEqual([...applied].sort())
  expect(await migrateAll(url)).toEqual([])
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

it('leaves the database unchanged when a migration fails halfway', async () => {
  const url = await createEmptyDatabase()
  await withPool(url, async (pool) => {
    // Makes the first migration fail after it has created other tables.
    await pool.query('CREATE TABLE settlements (id int)')
    await expect(migrate(pool)).rejects.toThrow('already exists')
    const { rows } = await pool.query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    expect(rows).toEqual([{ tablename: 'settlements' }])
  })
})
