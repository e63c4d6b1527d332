import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { migrateAll } from '../../../infra/commands/migrate/main.ts'
import { startPostgres } from '../../../infra/sandbox/postgres/embedded-postgres.ts'
import { serviceUrlOf } from '../../../infra/sandbox/postgres/service-connection.ts'
import { startStandaloneSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

/** Only commits that wait write the log: by itself the server would do so in 10 s, or after more than a call writes. */
const LAZY = { wal_writer_delay: "'10s'", wal_writer_flush_after: "'1GB'" }

async function query<Row extends pg.QueryResultRow>(url: string, ...statements: readonly string[]): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  let rows: Row[] = []
  for (const statement of statements) ({ rows } = await client.query<Row>(statement))
  await client.end()
  return rows
}

/**
 * Makes a paid call and crashes PostgreSQL as soon as the 200 arrives: what was committed without waiting for the disk is
 * still in the server's memory, and is lost. Returns what the ledger knows of the call once PostgreSQL has recovered.
 */
async function crashAfterPaidCall(settings: Readonly<Record<string, string>>) {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-durability-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const dataDirectory = join(directory, 'postgres')
  const postgres = await startPostgres({ dataDirectory })
  const url = postgres.connectionString
  await migrateAll(url, { serviceUrl: serviceUrlOf(url) })
  const sandbox = await startStandaloneSandbox({ databaseUrl: url })
  onTestFinished(() => sandbox.stop())
  const set = Object.entries({ ...LAZY, ...settings }).map(([name, value]) => `ALTER SYSTEM SET ${name} = ${value}`)
  await query(url, ...set, 'SELECT pg_reload_conf()')
  const shown = async () => await query<{ delay: string }>(url, 'SELECT current_setting($$wal_writer_delay$$) AS delay')
  await until(async () => (await shown())[0]?.delay === '10s')

  const body = { model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Hello' }] }
  const idempotencyKey = randomUUID()
  const headers = await sandbox.payer.sign(await sandbox.post('/v1/chat/completions', body, { idempotencyKey }))
  const answer = await sandbox.post('/v1/chat/completions', body, { idempotencyKey, headers })
  // PostgreSQL's immediate shutdown: nothing is written any more.
  process.kill(postgres.pid, 'SIGQUIT')
  const status = answer.status
  await answer.text()
  await postgres.exited

  const recovered = await startPostgres({ dataDirectory })
  onTestFinished(() => recovered.stop())
  const [call] = await query<{ receipts: number; results: number; payments: number }>(
    recovered.connectionString,
    `SELECT count(receipts.id)::int AS receipts, count(result_body)::int AS results, count(payment_response)::int AS payments
     FROM jobs LEFT JOIN receipts ON receipts.job_id = jobs.id`,
  )
  return { status, ...call }
}

describe('a 200', () => {
  it('is sent once result, payment and receipt survive a crash of PostgreSQL', async () => {
    expect(await crashAfterPaidCall({})).toEqual({ status: 200, receipts: 1, results: 1, payments: 1 })
  })

  it('would be lost by such a crash if commits did not wait', async () => {
    const lost = await crashAfterPaidCall({ synchronous_commit: "'off'" })
    expect(lost).toMatchObject({ status: 200, receipts: 0 })
  })
})
