import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openJobQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { QUEUE_NAMES } from '#shared/jobs/job-queue.ts'
import { createOperatorStore } from '#shared/ledger/operators/operator-store.ts'
import { findRoleProblem } from '#shared/ledger/role-rights.ts'
import { migrateAll } from '../../../infra/commands/migrate/main.ts'
import { checkDatabaseRole } from '../../../infra/commands/preflight/check-stores.ts'
import { serviceUrlOf } from '../../../infra/sandbox/postgres/service-connection.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

/** PostgreSQL's words for what a role has no right to. */
const REFUSED = /permission denied|must be owner|must be superuser/

const ask = async (url: string, statement: string) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(statement)).rows
  } finally {
    await client.end()
  }
}

describe('the role of the services', () => {
  let ledger: TestLedger
  let service: pg.Pool
  beforeAll(async () => {
    ledger = await createTestLedger()
    service = new pg.Pool({ connectionString: serviceUrlOf(ledger.url), max: 2 })
    await jobInState(ledger, 'completed')
    await createOperatorStore(ledger.pool).recordEvent(
      { operator: 'tester', source: 'command' },
      { action: 'test.record', subject: 'a', reason: null },
    )
  })
  afterAll(async () => {
    await service.end()
    await ledger.close()
  })

  it.each([
    'SET session_replication_role = replica',
    'ALTER TABLE operator_actions DISABLE TRIGGER ALL',
    'ALTER TABLE receipts DISABLE TRIGGER USER',
    'DROP TRIGGER operator_actions_are_chained ON operator_actions',
    'DROP TABLE operator_actions',
    'TRUNCATE operator_actions',
    "UPDATE operator_actions SET operator = 'another'",
    'DELETE FROM operator_actions',
    'UPDATE operator_action_head SET position = 0',
    'DELETE FROM operator_action_head',
    "UPDATE console_secret SET secret = sha256('')",
    'UPDATE resolutions SET amount = 0',
    'DELETE FROM publications',
    'DELETE FROM catalogs',
    'DELETE FROM receipts',
    "UPDATE receipts SET token_secret_id = 'another'",
    'UPDATE settlement_transactions SET account_nonce = 0',
    'DELETE FROM jobs',
    'DELETE FROM settlements',
    'DELETE FROM schema_migrations',
    'CREATE TABLE public.another (id int)',
    'CREATE OR REPLACE FUNCTION chain_operator_action() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$',
    'ALTER ROLE farebox_service SUPERUSER',
    'SET ROLE farebox',
  ])('is refused: %s', async (statement) => {
    const before = await ledger.fingerprint()
    await expect(service.query(statement)).rejects.toThrow(REFUSED)
    expect(await ledger.fingerprint()).toBe(before)
  })

  it('cannot have the hash of an action computed over its own tables', async () => {
    const client = await service.connect()
    try {
      await client.query('CREATE TEMP TABLE operator_action_head (position bigint, hash text)')
      await client.query("INSERT INTO operator_action_head VALUES (0, repeat('0', 64))")
      await client.query(
        "INSERT INTO public.operator_actions (operator, source, action, subject) VALUES ('a', 'command', 'b', 'c')",
      )
      expect((await client.query('SELECT position::int FROM pg_temp.operator_action_head')).rows).toEqual([
        { position: 0 },
      ])
    } finally {
      client.release(true)
    }
  })

  it('may neither delete nor truncate what a trigger keeps, in every table that has one', async () => {
    const kept = await ledger.sql<{ table: string; may: boolean }>(
      `SELECT DISTINCT tgrelid::regclass::text AS table,
         has_table_privilege('farebox_service', tgrelid, 'DELETE, TRUNCATE, TRIGGER, REFERENCES') AS may
       FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
       WHERE NOT tgisinternal AND proname LIKE 'refuse\\_%' AND (tgtype & 8 = 8 OR tgrelid = 'settlement_transactions'::regclass)
       ORDER BY 1`,
    )
    expect(kept.length).toBeGreaterThanOrEqual(7)
    expect(kept.filter(({ may }) => may)).toEqual([])
  })

  it('is named by preflight and start only where it could rewrite records', async () => {
    expect(await findRoleProblem(service)).toBeNull()
    expect(await findRoleProblem(ledger.pool)).toContain('the role farebox is a superuser')
    const [asService, asOwner] = await Promise.all(
      [serviceUrlOf(ledger.url), ledger.url].map((url) =>
        checkDatabaseRole({ DATABASE_URL: url, QUEUE_URL: undefined, QUEUE_PREFIX: 'farebox' }),
      ),
    )
    expect(asService?.outcome).toBe('passed')
    expect(asOwner).toMatchObject({
      outcome: 'skipped',
      detail: expect.stringContaining('MIGRATION_DATABASE_URL') as string,
    })
  })
})

describe('npm run migrate with an owner and a service', () => {
  const owner = `owner_${Date.now()}`
  const service = `service_${Date.now()}`
  let ledger: TestLedger
  const urlOf = (role: string, password: string) => {
    const url = new URL(ledger.url)
    ;[url.username, url.password] = [role, password]
    url.pathname = `/${owner}`
    return url.href
  }
  beforeAll(async () => {
    ledger = await createTestLedger()
    await ledger.sql(`CREATE ROLE ${owner} LOGIN CREATEROLE PASSWORD 'of the owner'`)
    await ledger.sql(`CREATE DATABASE ${owner} OWNER ${owner} TEMPLATE template0`)
  })
  afterAll(async () => {
    await ledger.sql(`DROP DATABASE ${owner} WITH (FORCE)`)
    await ledger.sql(`DROP ROLE IF EXISTS ${service}`)
    await ledger.sql(`DROP ROLE ${owner}`)
    await ledger.close()
  })

  it('needs no superuser, creates the role, and follows a change of its password', async () => {
    const migrate = (password: string) =>
      migrateAll(urlOf(owner, 'of the owner'), { serviceUrl: urlOf(service, password) })
    for (const password of ['first: p%40ss ü', 'second']) {
      await migrate(encodeURIComponent(password))
      const url = urlOf(service, encodeURIComponent(password))
      expect(await ask(url, 'SELECT count(*)::int AS jobs FROM jobs')).toEqual([{ jobs: 0 }])
      await expect(ask(url, 'ALTER TABLE operator_actions DISABLE TRIGGER USER')).rejects.toThrow(REFUSED)
      const queue = await openJobQueue(
        { DATABASE_URL: url, QUEUE_URL: undefined, QUEUE_PREFIX: 'farebox' },
        () => undefined,
      )
      for (const name of QUEUE_NAMES) await queue.enqueue(randomUUID(), name)
      await queue.close()
    }
    const [queued] = await ask(urlOf(owner, 'of the owner'), 'SELECT count(*)::int AS count FROM farebox_queue.job')
    expect(queued).toEqual({ count: 2 * QUEUE_NAMES.length })
    await expect(ask(urlOf(service, 'first'), 'SELECT 1')).rejects.toThrow('password authentication failed')
    const pool = new pg.Pool({ connectionString: urlOf(owner, 'of the owner') })
    expect(await findRoleProblem(pool)).toContain('is the owner of the tables')
    await pool.end()
  })

  it('grants what is new also when only the owner is named, and refuses one role for both', async () => {
    const [asOwner, asService] = [urlOf(owner, 'of the owner'), urlOf(service, 'second')]
    await ask(asOwner, 'CREATE TABLE of_a_later_version (id int)')
    await expect(ask(asService, 'SELECT id FROM of_a_later_version')).rejects.toThrow(REFUSED)
    await migrateAll(asOwner)
    expect(await ask(asService, 'SELECT id FROM of_a_later_version')).toEqual([])
    await expect(migrateAll(asOwner, { serviceUrl: asOwner })).rejects.toThrow('name the same role')
  })
})
