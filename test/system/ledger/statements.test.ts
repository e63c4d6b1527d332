import { randomUUID } from 'node:crypto'
import { glob, readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, it, test } from 'vitest'
import { JOB_STATES } from '#shared/jobs/job.ts'
import { RESOLVABLE_ITEMS } from '#shared/jobs/resolution.ts'
import { createBudgetStore } from '#shared/ledger/configuration/budget-store.ts'
import { createMoneyStore } from '#shared/ledger/console/money-store.ts'
import { createOperatorStore } from '#shared/ledger/operators/operator-store.ts'
import { createPool, type Pool, type PreparedStatement } from '#shared/ledger/pool.ts'
import { readSettlementsByTransaction } from '#shared/ledger/reports/ledger-settlements.ts'
import { rollUpHours } from '#shared/ledger/reports/roll-up-hours.ts'
import { createResolutionStore } from '#shared/ledger/resolutions/resolution-store.ts'
import { inPipelinedTransaction, inTransaction } from '#shared/ledger/transaction.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { parseItemName } from '#shared/operators/item.ts'
import { isConnectionFailure } from '#shared/runtime/connection-failure.ts'
import { writeHistory } from '../../support/ledger/history/write-history.ts'
import { bindTestKey, fencedWrites, jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob, paidAgain } from '../../support/ledger/new-test-job.ts'
import { inDebt, inReview, unknownSettlement } from '../../support/ledger/open-item.ts'
import { recordStatements } from '../../support/ledger/record-statements.ts'
import { settlingBatch } from '../../support/ledger/settling-batch.ts'
import { testAuthorization, testPermit } from '../../support/ledger/test-authorization.ts'
import { newTestBatch, renewalOf } from '../../support/ledger/test-batch.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { until } from '../../support/until.ts'

const ADAPTER = fileURLToPath(new URL('../../../shared/ledger/', import.meta.url))
/** The SQLSTATE of `pg_terminate_backend`, which counts as a lost connection. */
const ADMIN_SHUTDOWN = '57P01'
const writeNote = { name: 'write_note', text: 'INSERT INTO notes VALUES ($1)', values: ['written'] }
const divide = (by: number) => ({ name: 'divide', text: 'SELECT 1 / $1::int AS quotient', values: [by] })

describe('prepared statements', () => {
  let ledger: TestLedger
  /** Every statement sent to PostgreSQL since the test began, with its parameters. */
  let sent: (string | PreparedStatement)[]
  beforeAll(async () => {
    ledger = await createTestLedger(1)
    await recordStatements(ledger, (statement) => sent.push(statement))
  })

  beforeEach(() => {
    sent = []
  })

  afterAll(() => ledger.close())

  /** Runs a call in every way that changes its statements: with and without permit and upload, and to every end. */
  async function runEveryCall(): Promise<void> {
    const { payer } = testAuthorization()
    const authorization = testAuthorization({ payer, gasSponsoring: testPermit(payer, 0n) })
    const completed = await jobInState(ledger, 'completed', newTestJob({ authorization }))
    await ledger.acceptance.readOutcomes([completed.id])
    await ledger.acceptance.readOutcomes([completed.id, completed.id])
    for (const state of JOB_STATES) await jobInState(ledger, state)
    const [batched, failed] = await settlingBatch(ledger, 2)
    if (!batched || !failed) throw new Error('two jobs')
    await ledger.settlement.readSettlement(batched.job)
    await ledger.settlement.renewBatch([renewalOf(batched.job, batched.settlement)], newTestBatch())
    await fencedWrites.completeJob.run(ledger, batched.job)
    await fencedWrites.failSettlement.run(ledger, failed.job)
    const retried = await jobInState(ledger, 'generating')
    await fencedWrites.startAttempt.run(ledger, retried)
    for (const funds of [null, newTestJob().exposure.funds]) await ledger.execution.readExposureAhead(retried, funds)
  }
  test('every statement of a call that has parameters is prepared under a name', async () => {
    await runEveryCall()
    const prepared = sent.filter((statement) => typeof statement !== 'string')
    expect(prepared.length).toBeGreaterThan(50)
    for (const { name, text, values } of prepared) {
      expect(name).toMatch(/^[a-z][a-z_]{0,62}$/)
      expect([name, text.includes('$1'), values.length > 0]).toEqual([name, true, true])
    }
    for (const text of sent.filter((statement) => typeof statement === 'string')) expect(text).not.toContain('$1')
  })

  test('no name is used for two texts, and no text has two names', async () => {
    await runEveryCall()
    const prepared = sent.filter((statement) => typeof statement !== 'string')
    const textOf = new Map(prepared.map(({ name, text }) => [name, text]))
    for (const { name, text } of prepared) expect(text).toBe(textOf.get(name))
    expect(new Set(textOf.values()).size).toBe(textOf.size)
  })

  test('no name is given to two statements in the source', async () => {
    const names: string[] = []
    for await (const file of glob('**/*.ts', { cwd: ADAPTER })) {
      const source = await readFile(`${ADAPTER}${file}`, 'utf8')
      const literals = [...source.matchAll(/^\s*name: (?<expression>.*),$/gm)].flatMap(({ groups }) =>
        [...(groups?.['expression'] ?? '').matchAll(/'([a-z_]+)'/g)].map(([, name = '']) => name),
      )
      names.push(...literals)
    }
    expect(names).toContain('release_job')
    expect(names).toHaveLength(new Set(names).size)
  })

  test('no row is deleted to which a column without an index refers, since PostgreSQL would read that whole table', async () => {
    const unindexed = await ledger.sql<{ referred: string }>(
      `SELECT DISTINCT confrelid::regclass::text AS referred FROM pg_constraint
     WHERE contype = 'f' AND NOT EXISTS (SELECT FROM pg_index
       WHERE indrelid = conrelid AND indpred IS NULL AND indkey[0] = conkey[1])`,
    )
    const referred = unindexed.map((row) => row.referred)
    expect(referred).toContain('authorizations')
    const deletedFrom = new Set<string>()
    for await (const file of glob('**/*.ts', { cwd: ADAPTER })) {
      const source = await readFile(`${ADAPTER}${file}`, 'utf8')
      for (const [, table = ''] of source.matchAll(/DELETE FROM ([a-z_]+)/g)) deletedFrom.add(table)
    }
    expect(deletedFrom).toContain('idempotency_keys')
    expect(referred.filter((table) => deletedFrom.has(table))).toEqual([])
  })

  test('PostgreSQL plans a prepared statement once for each connection', async () => {
    for (let call = 0; call < 3; call += 1) await ledger.acceptance.hasJob('a key')
    const plans = await ledger.sql(
      `SELECT count(*)::int AS statements, sum(generic_plans)::int AS runs, sum(custom_plans)::int AS planned_for_values
     FROM pg_prepared_statements WHERE name = 'has_job'`,
    )
    expect(plans).toEqual([{ statements: 1, runs: 3, planned_for_values: 0 }])
  })

  test('a call reads no whole table once the ledger has a few hundred', async () => {
    await Promise.all(Array.from({ length: 400 }, () => jobInState(ledger, 'completed')))
    await ledger.sql('ANALYZE')
    const rowsRead = async () => {
      await ledger.sql('SELECT pg_stat_force_next_flush()')
      return await ledger.sql<{ table: string; rows: number; entries: number }>(
        `SELECT relname AS table, seq_tup_read::int AS rows, idx_tup_fetch::int AS entries FROM pg_stat_user_tables
         WHERE relname IN ('idempotency_keys', 'jobs', 'authorizations', 'upstream_attempts') ORDER BY relname`,
      )
    }
    const before = await rowsRead()
    for (let call = 0; call < 5; call += 1) await jobInState(ledger, 'completed')
    const after = await rowsRead()
    expect(after.map(({ rows }, index) => rows - (before[index]?.rows ?? 0))).toEqual([0, 0, 0, 0])
    for (const [index, { entries }] of after.entries()) expect(entries).toBeGreaterThan(before[index]?.entries ?? 0)
  })

  test('a column added by a later migration does not break a claim on a connection that prepared it before', async () => {
    const before = await jobInState(ledger, 'generated')
    await ledger.execution.releaseJob(before)
    expect(await ledger.execution.leaseJob(before.id, 15_000)).toMatchObject({ state: 'generated' })
    await ledger.sql('ALTER TABLE jobs ADD COLUMN of_a_later_migration text')
    const after = await jobInState(ledger, 'generated')
    await ledger.execution.releaseJob(after)
    expect(await ledger.execution.leaseJob(after.id, 15_000)).toMatchObject({ id: after.id, state: 'generated' })
  })
})

describe('a connection on which statements are sent without waiting', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
    await ledger.sql('CREATE TABLE notes (text text)')
  })
  afterAll(() => ledger.close())
  /** Opens a pool of one connection, which has a name of its own. */
  async function withPool<T>(
    work: (pool: Pool, name: string) => Promise<T>,
    statementTimeoutMs = PATIENCE_MS,
  ): Promise<T> {
    const name = randomUUID()
    const options = { connectionString: ledger.url, maximumConnections: 1, applicationName: name, statementTimeoutMs }
    const pool = createPool({ ...options, onError: () => undefined, connectTimeoutMs: statementTimeoutMs })
    try {
      return await work(pool, name)
    } finally {
      await pool.end()
    }
  }
  /** Ends a connection once it sleeps. */
  async function endConnection(name: string): Promise<void> {
    await until(async () => {
      const ended = await ledger.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'PgSleep'",
        [name],
      )
      return ended.length > 0
    })
  }

  it('works after a statement that failed, also for statements that were prepared behind it', async () => {
    await withPool(async (pool) => {
      const failing = inTransaction(pool, (sql) => Promise.all([sql.query(divide(0)), sql.query(writeNote)]))
      await expect(failing).rejects.toMatchObject({ code: '22012' })
      const [divided, written] = await inTransaction(pool, (sql) =>
        Promise.all([sql.query(divide(1)), sql.query(writeNote)]),
      )
      expect([divided.rows, written.rowCount]).toEqual([[{ quotient: 1 }], 1])
      await ledger.sql('DELETE FROM notes')
    })
  })

  it('is replaced after a statement that the server never answers', async () => {
    await withPool(async (pool) => {
      const hanging = inTransaction(pool, async (sql) => {
        await sql.query('SET LOCAL statement_timeout = 0')
        await Promise.all([sql.query('SELECT pg_sleep(600)'), sql.query(writeNote)])
      })
      expect(await hanging.catch(isConnectionFailure)).toBe(true)
      // Within the same short limit a slow machine may not open another connection at the first attempt.
      await until(() =>
        pool.query('SELECT 1').then(
          ({ rowCount }) => rowCount,
          () => null,
        ),
      )
    }, 500)
    expect(await ledger.sql('SELECT FROM notes')).toEqual([])
  })

  it('commits nothing when it is lost before the statements behind COMMIT, and reports the loss', async () => {
    await withPool(async (pool, name) => {
      const lost = inPipelinedTransaction(pool, async (sql) => {
        const sent = [sql.query(writeNote), sql.query('SELECT pg_sleep(600)'), sql.query(writeNote)]
        await sql.commitBehind(Promise.all(sent))
      })
      const code = lost.catch((error: { code?: string }) => error.code)
      await endConnection(name)
      expect(await code).toBe(ADMIN_SHUTDOWN)
      expect((await pool.query('SELECT FROM notes')).rowCount).toBe(0)
    })
  })

  it('waits for a statement on its way before it is used again when the work fails', async () => {
    await withPool(async (pool) => {
      const failing = inPipelinedTransaction(pool, async (sql) => {
        sql.query(writeNote).catch(() => undefined)
        await delay(0)
        throw new Error('of the work itself')
      })
      await expect(failing).rejects.toThrow('of the work itself')
      expect((await pool.query('SELECT FROM notes')).rowCount).toBe(0)
    })
  })
})

describe('sequential scans', () => {
  /**
   * Returns the number of sequential scans since the last call; with `enable_seqscan` off, only statements without a
   * usable index scan.
   */
  let scansSince: () => Promise<number>
  let ledger: TestLedger
  beforeAll(async () => {
    // A single connection, so that the setting applies to every statement and the counts are complete.
    ledger = await createTestLedger(1)
    await ledger.sql('SET enable_seqscan = off')
    // With statistics of a dozen rows, the planner prefers other indexes; whether they are collected in time is chance.
    await ledger.sql(`DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
      EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', name);
    END LOOP; END $$`)
    let seen = 0
    scansSince = async () => {
      await ledger.sql('SELECT pg_stat_force_next_flush()')
      const [row] = await ledger.sql<{ scans: number }>(
        `SELECT sum(seq_scan)::int AS scans FROM pg_stat_user_tables
       WHERE schemaname = 'public' AND relname NOT IN ('operator_action_head', 'settlement_accounts', 'schema_migrations')`,
      )
      const since = (row?.scans ?? 0) - seen
      seen = row?.scans ?? 0
      return since
    }
  })
  afterAll(() => ledger.close())

  it('counts on a connection that keeps its setting however long nothing is sent', async () => {
    const { options } = ledger.pool
    const { idleTimeoutMillis } = options
    options.idleTimeoutMillis = 1
    await ledger.sql('SELECT 1')
    await delay(20)
    expect(await ledger.sql('SHOW enable_seqscan')).toEqual([{ enable_seqscan: 'off' }])
    options.idleTimeoutMillis = idleTimeoutMillis
  })

  it('counts a statement whose index was dropped', async () => {
    const counted: number[] = []
    for (const change of ['DROP INDEX media_to_reap', 'SELECT 1']) {
      await scansSince()
      await ledger.sql('BEGIN')
      await ledger.sql(change)
      await ledger.retention.findExpiredMedia(200)
      await ledger.sql('ROLLBACK')
      counted.push(await scansSince())
    }
    expect(counted).toEqual([1, 0])
  })

  it('reads no table sequentially when a withheld result is paid for', async () => {
    const request = newTestJob()
    await jobInState(ledger, 'settlement_failed', request)
    const paid = paidAgain(request)
    await scansSince()
    expect(await ledger.acceptance.acceptPayment(paid)).toMatchObject({ outcome: 'settles_again' })
    expect(await scansSince()).toBe(0)
  })

  it('reads no table sequentially when a call is accepted or refused for uncharged work', async () => {
    const request = newTestJob()
    const job = await jobInState(ledger, 'generating', request)
    const next = newTestJob({ authorization: testAuthorization({ payer: request.authorization.payer }) })
    await bindTestKey(ledger, next)
    await scansSince()
    expect(await ledger.acceptance.findOpenJob(request.authorization.payer)).toBe(job.id)
    const call = { payer: request.authorization.payer, idempotencyKey: request.idempotencyKey }
    expect(await ledger.acceptance.takePermitTurn(call, 1)).toBe(false)
    expect(await ledger.acceptance.findPermitTurn(call.payer)).toBeNull()
    await ledger.acceptance.endPermitTurn(call)
    await ledger.execution.failJob(job, { code: 'provider_empty_output', reason: 'test', attempt: 'failed_empty' })
    expect(await ledger.acceptance.acceptPayment(next)).toMatchObject({ outcome: 'accepted' })
    const [row] = await ledger.sql('UPDATE uncharged_work SET amount = 1000000 WHERE payer = $1 RETURNING kind', [
      request.authorization.payer,
    ])
    expect(row).toEqual({ kind: 'empty_output' })
    expect(await ledger.acceptance.acceptPayment(paidAgain(request))).toMatchObject({ outcome: 'uncharged_work_limit' })
    expect(await scansSince()).toBe(0)
  })

  it('reads no table sequentially when a payment is judged that its payer has not covered', async () => {
    const debt = newTestJob()
    await jobInState(ledger, 'settlement_failed', debt)
    const paid = await jobInState(ledger, 'completed')
    const lost = newTestJob({ authorization: testAuthorization({ payer: paid.authorization.payer }) })
    await ledger.execution.failJob(await jobInState(ledger, 'generating', lost), {
      code: 'provider_empty_output',
      reason: 'test',
      attempt: 'failed_empty',
    })
    const next = () => newTestJob({ authorization: testAuthorization({ payer: paid.authorization.payer }) })
    const [one, beyond] = [next(), next()]
    for (const job of [one, beyond]) await bindTestKey(ledger, job)
    await ledger.sql('UPDATE uncharged_work SET amount = 900000')
    const priced = { ...beyond, exposure: { ...beyond.exposure, highestPrice: atomicAmount(1n) } }
    await scansSince()
    expect(await ledger.acceptance.acceptPayment(priced)).toMatchObject({ outcome: 'exceeds_trust' })
    expect(await ledger.acceptance.acceptPayment(one)).toMatchObject({ outcome: 'accepted' })
    expect(await scansSince()).toBe(0)
  })

  it('reads no table sequentially for the sweepers', async () => {
    const { execution, retention, settlement, reports } = ledger
    await scansSince()
    await execution.takeDueJobs(['settling'], 200)
    await retention.eraseExpiredUploads(200)
    await retention.findExpiredMedia(200)
    await retention.expireResults(0, 200)
    await retention.forgetExpiredChallenges(200)
    await retention.forgetInspections(200)
    await retention.forgetNetworks(200)
    await settlement.findUnfinalBlocks(0n)
    await settlement.removeFromBlocks(['0x01'])
    await settlement.readRemoved(200)
    await settlement.readRemovedRemote(200)
    await settlement.readFailed('own_key', null, 20)
    await settlement.readFailed('remote_facilitator', 0n, 200)
    await settlement.markFinal(['0x01'])
    await reports.readSettlementTotals()
    expect(await scansSince()).toBe(0)
  })

  it('reads no attempts of other days for the budgets of vendors, in a table of many', async () => {
    const large = await createTestLedger(1)
    try {
      // Without the jobs that they refer to.
      await large.sql('SET session_replication_role = replica')
      await large.sql(
        `INSERT INTO upstream_attempts (id, job_id, authorization_id, deployment, vendor, upstream_model, state, vendor_cost,
           finished_at)
         SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'd', 'v', 'm', 'succeeded', 1, now() - n * interval '1 minute'
         FROM generate_series(1, 20000) AS n`,
      )
      await large.sql('ANALYZE upstream_attempts')
      const now = new Date()
      expect(await createBudgetStore(large.pool).readSpent(new Date(now.getTime() - 600_000), now)).toHaveLength(1)
      const plan = await large.sql('EXPLAIN EXECUTE read_spent (now(), now())')
      expect(JSON.stringify(plan)).toContain('upstream_attempts_by_end')
    } finally {
      await large.close()
    }
  })

  it('reads no table sequentially for settlements in batches', async () => {
    const [first, second] = [newTestBatch(), newTestBatch()]
    const [one, two] = await settlingBatch(ledger, 2, first)
    if (!one || !two) throw new Error('two jobs')
    const { settlement } = ledger
    const hash = first.signed[0]?.hash ?? '0x'
    await scansSince()
    await settlement.renewBatch([renewalOf(one.job, one.settlement)], second)
    await settlement.readSettlement(one.job)
    await settlement.readEarlierSettlements(one.job)
    await settlement.readNonceQueue(first.account, 0n)
    await settlement.fillGap(first.account, 0n, { hash: '0xf1', raw: '0x02f1' })
    await settlement.abandonBatch(two.settlement.batch?.id ?? '')
    await settlement.addReplacement(hash, { hash: '0xa1', raw: '0x02a1' })
    await settlement.recordRevertedBatch(hash, { gasUsed: 1n, effectiveGasPrice: 1n, cost: atomicAmount(1n) })
    await settlement.failSettlement(two.job, { code: 'settlement_failed', reason: 'test' })
    expect(await settlement.readFailed('own_key', null, 20)).not.toEqual([])
    await fencedWrites.completeJob.run(ledger, one.job)
    await ledger.sql("UPDATE settlements SET block_hash = NULL WHERE state = 'confirmed'")
    expect(await settlement.readRemoved(200)).not.toEqual([])
    const money = createMoneyStore(ledger.pool)
    expect(await money.findById(hash)).toHaveLength(2)
    await money.readPayment(two.job.id)
    const period = { from: '2000-01-01T00:00:00Z', to: '2100-01-01T00:00:00Z' }
    expect(await readSettlementsByTransaction(ledger.pool, period, [hash])).toHaveLength(2)
    expect(await scansSince()).toBe(0)
  })

  it('reads no table sequentially for stored permits', async () => {
    const { permits, retention } = ledger
    const owner = `0x${'a1'.repeat(20)}` as const
    const permit = { owner, value: 1n, deadline: 2n ** 256n - 1n, nonce: 0n, signature: '0x01' } as const
    await scansSince()
    expect(await permits.storePermit(permit)).toBe(true)
    expect(await permits.findStoredPermit(owner)).toEqual(permit)
    await permits.forgetStoredPermit(permit)
    expect(await permits.findStoredPermit(owner)).toBeNull()
    await retention.forgetPermits(10)
    expect(await scansSince()).toBe(0)
  })

  it('reads no table sequentially for the console', async () => {
    const money = createMoneyStore(ledger.pool)
    const job = await jobInState(ledger, 'completed')
    const { payer } = job.authorization
    const period = { from: new Date(Date.now() - 86_400_000), until: new Date() }
    const page = { limit: 2, after: null }
    await scansSince()
    for (const id of [job.id, payer, `0x${'ab'.repeat(32)}`, 'a key', '0xab', 'abcd', 'a beginning'])
      await money.findById(id)
    await money.readPayment(job.id)
    await money.readPayer(payer)
    const pageBefore = { ...page, before: { microseconds: 0n, id: job.id } }
    for (const one of [page, pageBefore]) {
      await money.listPayerCalls(payer, one)
      for (const state of [undefined, 'open', 'uncharged', ...JOB_STATES] as const)
        await money.listCalls({ state }, one)
      for (const state of [undefined, 'open', 'uncharged', ...JOB_STATES] as const)
        await money.listCalls({ by: 'ended', state }, one)
      for (const by of [undefined, 'ended'] as const)
        await money.listCalls({ by, code: 'c', model: 'm', deployment: 'd', payer, atLeast: 1n }, one)
    }
    await money.readDays(period)
    await money.readFailures(period)
    await money.readHours(period)
    for (const model of [null, 'm']) await money.readModelDays(period, model)
    for (const filter of [{}, { payer }, { state: 'completed' as const, payer }, { by: 'ended' as const }])
      for await (const calls of money.exportCalls({ ...period, ...filter })) expect(calls.length).toBeGreaterThan(0)
    await rollUpHours(ledger.pool, 24)
    expect(await scansSince()).toBe(0)
  })

  it('reads the calls of a day by their end from the indexes of that, in a table of many', async () => {
    const large = await createTestLedger(1)
    try {
      await writeHistory(large.url, { calls: 10_000, days: 20, payers: 40 })
      const money = createMoneyStore(large.pool)
      const [day] = await large.sql<{ from: Date; until: Date; ended: number }>(
        `SELECT start AS from, start + interval '1 day' AS until, count(*)::int AS ended
         FROM jobs, LATERAL date_trunc('day', finished_at, 'UTC') AS start GROUP BY 1 ORDER BY 3 DESC LIMIT 1`,
      )
      if (!day) throw new Error('the history has calls')
      const { ended, ...period } = day
      const exported: string[] = []
      for await (const calls of money.exportCalls({ by: 'ended', ...period }))
        exported.push(...calls.map(({ jobId }) => jobId))
      expect(new Set(exported).size).toBe(ended)
      await money.listCalls({ by: 'ended', ...period }, { limit: 50, after: null })
      const [upper, lower] = [period.until, period.from].map((moment) => `'${moment.getTime() * 1000}'`)
      const none = "'00000000-0000-0000-0000-000000000000'"
      for (const statement of ['export_console_calls_first_e', 'list_console_calls_e']) {
        const plan = JSON.stringify(
          await large.sql(`EXPLAIN EXECUTE ${statement} (${upper}, ${none}, ${lower}, ${none}, 51)`),
        )
        for (const index of ['jobs_charged', 'jobs_failed_by_time'])
          expect([statement, plan]).toEqual([statement, expect.stringContaining(index)])
        expect(plan).not.toContain('Seq Scan on jobs')
      }
    } finally {
      await large.close()
    }
  })

  it('reads no table sequentially for a request of an operator and their actions', async () => {
    const operators = createOperatorStore(ledger.pool)
    const author = { operator: 'a', source: 'command' } as const
    await operators.addAccount({ name: 'a', role: 'act', passwordHash: 'hash' }, author)
    const tokenSha256 = 'a'.repeat(64)
    await scansSince()
    const limits = { windowSeconds: 900, byAccountAndAddress: 5, byAddress: 20, byAccount: 1, byDevice: 1 }
    await operators.beginSignIn('a', { address: '192.0.2.1', device: null }, limits)
    await operators.beginSignIn('a', { address: '192.0.2.2', device: null }, limits)
    await operators.beginSignIn('a', { address: '192.0.2.2', device: { id: 'b', knownSince: new Date() } }, limits)
    await operators.openSession({
      operator: 'a',
      passwordHash: 'hash',
      address: '192.0.2.1',
      device: null,
      tokenSha256,
      lifetimeSeconds: 60,
      replaces: null,
    })
    expect(await operators.useSession(tokenSha256, 60)).toEqual({ name: 'a', role: 'act' })
    for (const filter of [{}, { operator: 'a' }, { subject: 'a' }, { action: 'operator.add' }])
      await operators.readActions(filter, { before: null, limit: 1 })
    await operators.endSession(tokenSha256)
    expect(await scansSince()).toBe(0)
  })

  it('reads no table sequentially for items that a person ends', async () => {
    const store = createResolutionStore(ledger.pool)
    const [review, debt] = [await inReview(ledger), await inDebt(ledger)]
    const unknown = await unknownSettlement(ledger)
    const { payer } = review.request.authorization
    await scansSince()
    for (const filter of [{}, { payer }, ...RESOLVABLE_ITEMS.map((kind) => ({ kind, payer }))])
      for (const before of [undefined, { microseconds: 0n, id: review.id }])
        await store.openItems(filter, { limit: 2, after: null, before })
    for (const { id } of [review, debt, unknown]) {
      const name = parseItemName(id)
      if (!name) throw new Error(`${id} is no name`)
      const resolution = { outcome: 'paid_outside', reason: 'test', refund: null } as const
      await store.storeResolution(name, resolution, { operator: 'anna', source: 'command' })
    }
    expect(await scansSince()).toBe(0)
  })

  it('reads no table sequentially for the metrics', async () => {
    await scansSince()
    await ledger.reports.readLedgerTotals()
    await ledger.reports.readSettlementTotals()
    await ledger.reports.readOldestSnapshot()
    await ledger.reports.rollUpTotals()
    expect(await scansSince()).toBe(0)
  })
})
