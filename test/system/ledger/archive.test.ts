import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { LeasedJob } from '#shared/jobs/job.ts'
import { readPayment } from '#shared/ledger/console/read-payment.ts'
import { readContradictions } from '#shared/ledger/reports/contradictions.ts'
import { readPaymentParties } from '#shared/ledger/reports/payment-parties.ts'
import { main as archive } from '../../../infra/commands/archive/main.ts'
import { main as ledger } from '../../../infra/commands/ledger/main.ts'
import { main as resolve } from '../../../infra/commands/resolve/main.ts'
import { spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { createPointControl } from '../../resilience/processes/reach-point.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { makeOld, NEXT_MONTH, OLD_MONTH, oldBatch, oldCalls } from '../../support/ledger/old-calls.ts'
import { createTestArchive, type TestArchive } from '../../support/ledger/test-archive.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { type PaidCall, payForCall } from '../../support/payer/paid-call.ts'
import { verifyAsAnyone } from '../../support/payer/verify-receipt.ts'
import { callCommand } from '../../support/processes/call-command.ts'
import { COMPILE_CACHE } from '../../support/processes/run-program.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const idsOf = (jobs: readonly LeasedJob[]) => jobs.map(({ id }) => id)
const all = (count: number) => ({
  receipts: count,
  authorizations: count,
  jobs: count,
  keys: count,
  transactions: count,
})
const FIXTURE = fileURLToPath(new URL('../../support/ledger/archive-process.fixture.ts', import.meta.url))
/** Every step of a run: a process that is killed there has done everything before it and nothing after it. */
const POINTS = [
  'readDocuments.before',
  'readDocuments.after',
  'objects.put.after',
  'objects.get.after',
  'erase.before',
  'erase.commit.before',
  'erase.commit.sent',
  'erase.after',
  'finishMonth.before',
  'finishMonth.after',
]
const PATH = '/v1/messages'
const request = (content: string) => ({
  model: 'textmodel-3.5-flash',
  messages: [{ role: 'user', content }],
  max_tokens: 16,
})
/** The end of the period is the time of the report. */
const withoutTimes = (json: string) => json.replaceAll(/"to": "[^"]*"/g, '')

describe('npm run archive', () => {
  let ledger: TestLedger
  let archive: TestArchive
  beforeEach(async () => {
    ledger = await createTestLedger(4)
    archive = await createTestArchive(ledger)
  })
  afterEach(async () => {
    await archive.close()
    await ledger.close()
  })
  const archiveOld = () => archive.run('--before', NEXT_MONTH)
  async function receiptIds(jobs: readonly LeasedJob[]): Promise<readonly string[]> {
    const rows = await ledger.sql<{ id: string }>(
      'SELECT id FROM receipts WHERE job_id = ANY($1) ORDER BY array_position($1, job_id)',
      [idsOf(jobs)],
    )
    return rows.map(({ id }) => id)
  }
  /** Returns how many of the calls have each document in the ledger. */
  async function documentsOf(jobs: readonly LeasedJob[]) {
    const [row] = await ledger.sql<Record<string, string>>(
      `SELECT count(*) FILTER (WHERE receipts.body ? 'calculation') AS receipts,
       count(*) FILTER (WHERE signed ? 'signature') AS authorizations,
       count(*) FILTER (WHERE jobs.terms <> '{}' AND payment_response <> '{}') AS jobs,
       count(*) FILTER (WHERE idempotency_keys.terms <> '{}') AS keys,
       count(*) FILTER (WHERE EXISTS (SELECT FROM settlement_transactions JOIN settlements
         ON settlements.id = settlement_id OR settlements.batch_id = settlement_transactions.batch_id
         WHERE settlements.job_id = jobs.id AND raw_transaction <> '')) AS transactions
     FROM jobs JOIN receipts ON receipts.job_id = jobs.id JOIN authorizations ON authorizations.id = authorization_id
       JOIN idempotency_keys USING (idempotency_key) WHERE jobs.id = ANY($1)`,
      [idsOf(jobs)],
    )
    return Object.fromEntries(Object.entries(row ?? {}).map(([name, count]) => [name, Number(count)]))
  }
  async function keyOf(jobId: string): Promise<string> {
    const [row] = await ledger.sql<{ idempotency_key: string }>('SELECT idempotency_key FROM jobs WHERE id = $1', [
      jobId,
    ])
    return row?.idempotency_key ?? ''
  }
  /** Writes rows that the ledger's own statements would write over days. */
  async function withoutForeignKeys(statement: string, id: string | undefined): Promise<void> {
    const client = await ledger.pool.connect()
    try {
      await client.query('SET session_replication_role = replica')
      await client.query(statement, [id])
    } finally {
      client.release(true)
    }
  }

  it('moves the documents of calls that are over, and every reader returns what it did before', async () => {
    const jobs = [...(await oldCalls(ledger, 3)), ...(await oldBatch(ledger, 3))]
    const ids = await receiptIds(jobs)
    const period = { from: `${OLD_MONTH}-01T00:00:00Z`, to: `${NEXT_MONTH}-01T00:00:00Z` }
    const read = async () => {
      const admission = archive.openReader()
      return {
        receipts: (await Promise.all(ids.map((id) => admission.findReceipt(id)))).map((receipt) =>
          JSON.stringify(receipt),
        ),
        console: await Promise.all(jobs.map(({ id }) => readPayment(ledger.pool, id))),
        outcomes: await admission.readOutcomes(idsOf(jobs)),
        hasJob: await Promise.all(jobs.map(async ({ id }) => await admission.hasJob(await keyOf(id)))),
        contradictions: await readContradictions(ledger.pool, period),
        parties: await readPaymentParties(ledger.pool),
      }
    }
    const before = await read()
    expect(before.receipts.filter((receipt) => receipt.includes('"calculation"'))).toHaveLength(6)
    expect(await documentsOf(jobs)).toEqual(all(6))
    const run = await archiveOld()
    expect(run).toMatchObject({ exitCode: 0, errors: '' })
    expect(run.output).toMatch(/^2026-05: 6 calls in 1 objects of 0\.0 MB together; all are over$/m)
    expect(await documentsOf(jobs)).toEqual(all(0))
    expect(await read()).toEqual(before)
  })

  it('changes nothing in a second run, and nothing with --dry-run', async () => {
    const jobs = await oldCalls(ledger, 2)
    const unchanged = await ledger.fingerprint()
    const counted = await archive.run('--dry-run', '--before', NEXT_MONTH)
    expect(counted.output).toMatch(
      /^2026-05: 2 calls with documents of \d\.\d MB, and their transactions; all are over$/m,
    )
    expect([await ledger.fingerprint(), await archive.files()]).toEqual([unchanged, []])
    await archiveOld()
    const archived = await ledger.fingerprint()
    expect((await archiveOld()).exitCode).toBe(0)
    expect((await archive.run('--dry-run', '--before', NEXT_MONTH)).output).toMatch(/^Nothing before 2026-06 is left/m)
    expect([await ledger.fingerprint(), await documentsOf(jobs)]).toEqual([archived, all(0)])
    expect(await archive.files()).toHaveLength(1)
  })

  it('takes whole months, by default those that ended at least 90 days ago', async () => {
    const jobs = await oldCalls(ledger, 3)
    const [first, second] = idsOf(jobs)
    await ledger.sql("UPDATE jobs SET finished_at = now() - interval '60 days' WHERE id = $1", [first])
    await ledger.sql("UPDATE jobs SET finished_at = now() - interval '130 days' WHERE id = $1", [second])
    await archive.run('--before', OLD_MONTH)
    expect(await documentsOf(jobs)).toEqual(all(3))
    expect((await archive.run('--before', '2019-13')).exitCode).toBe(2)
    expect((await archive.run('--before', '2099-01')).errors).toContain('must not be after the current month')
    const unasked = await archive.run('--verify')
    expect(unasked.output).toContain('0 objects are as they were archived')
    await archive.run()
    expect(await documentsOf(jobs)).toEqual(all(1))
  })

  /** What keeps a completed call's documents in the ledger. */
  const open: readonly (readonly [string, string])[] = [
    ['whose result is still stored', "UPDATE jobs SET result_body = '{}', result_expired_at = NULL WHERE id = $1"],
    ['whose settlement is not final', 'UPDATE settlements SET finalized_at = NULL WHERE job_id = $1'],
    [
      'whose settlement was lost',
      "UPDATE settlements SET finalized_at = NULL, state = 'lost', failure_reason = 'test' WHERE job_id = $1",
    ],
    [
      'with a surplus settlement',
      `INSERT INTO settlements (id, job_id, authorization_id, network, facilitator, account_nonce, charge_amount, state,
         payer, transaction_hash, block_number, finished_at, failure_reason)
       SELECT gen_random_uuid(), job_id, gen_random_uuid(), network, facilitator, account_nonce + 1000, charge_amount, 'surplus',
         payer, 'h', 1, now(), 'test' FROM settlements WHERE job_id = $1`,
    ],
    [
      'whose payment can still be presented',
      "UPDATE authorizations SET deadline = now() + interval '1 minute' WHERE job_id = $1",
    ],
    ['whose permit is open', 'UPDATE authorizations SET permit_nonce = 7 WHERE job_id = $1'],
    [
      'whose key has a challenge',
      "UPDATE idempotency_keys SET expires_at = now() + interval '1 minute' WHERE job_id = $1",
    ],
    [
      'with a settlement that nobody has explained',
      `INSERT INTO unknown_settlements (network, payer, nonce, pay_to, authorized_maximum, transaction_hash, block_number,
         amount, job_id) SELECT network, payer, 1, 'p', 1, 'h', 1, 1, id FROM jobs JOIN (
         SELECT job_id, network FROM authorizations) AS paid ON job_id = id WHERE id = $1`,
    ],
    [
      'whose payment is on chain a second time without a record',
      `INSERT INTO unknown_settlements (network, payer, nonce, pay_to, authorized_maximum, transaction_hash, block_number,
         amount) SELECT network, payer, nonce, 'p', 1, 'h', 1, 1 FROM authorizations WHERE job_id = $1`,
    ],
  ]
  it.each(open)('keeps a call %s', async (_, statement) => {
    const jobs = await oldCalls(ledger, 2)
    const [kept, ...others] = jobs
    await withoutForeignKeys(statement, kept?.id)
    const { exitCode, output } = await archiveOld()
    expect([exitCode, output]).toEqual([0, expect.stringContaining('1 calls in 1 objects')])
    expect(output).toContain('1 are not over and stay as they are')
    expect(await documentsOf(kept ? [kept] : [])).toEqual(all(1))
    expect(await documentsOf(others)).toEqual(all(0))
  })

  it('archives a call that was not over once it is', async () => {
    const jobs = await oldCalls(ledger, 2)
    const [late] = jobs
    await ledger.sql('UPDATE settlements SET finalized_at = NULL WHERE job_id = $1', [late?.id])
    await archiveOld()
    await ledger.sql('UPDATE settlements SET finalized_at = now() WHERE job_id = $1', [late?.id])
    await archiveOld()
    expect(await documentsOf(jobs)).toEqual(all(0))
  })

  it('leaves calls alone that did not end with a payment', async () => {
    const failed = await jobInState(ledger, 'failed')
    await ledger.sql("UPDATE jobs SET finished_at = '2026-05-02' WHERE id = $1", [failed.id])
    await oldCalls(ledger, 1)
    await archiveOld()
    const [row] = await ledger.sql<{ has_signature: boolean }>(
      "SELECT signed ? 'signature' AS has_signature FROM authorizations WHERE job_id = $1",
      [failed.id],
    )
    expect(row?.has_signature).toBe(true)
  })

  it('keeps the transactions of a batch until all of its calls are archived', async () => {
    const jobs = await oldBatch(ledger, 3)
    const [late] = jobs
    await ledger.sql('UPDATE settlements SET finalized_at = NULL WHERE job_id = $1', [late?.id])
    await archiveOld()
    expect(await documentsOf(jobs)).toEqual({ ...all(1), transactions: 3 })
    await ledger.sql('UPDATE settlements SET finalized_at = now() WHERE job_id = $1', [late?.id])
    await archiveOld()
    expect(await documentsOf(jobs)).toEqual(all(0))
    const rows = await ledger.sql<{ transactions: number }>('SELECT transactions FROM archive_objects ORDER BY id')
    expect(rows.map(({ transactions }) => transactions)).toEqual([0, 1])
  })

  it('shows every document of a call as it was', async () => {
    const [job] = await oldCalls(ledger, 1)
    const [stored] = await ledger.sql<{ receipt: object; signed: object; terms: object; raw: string }>(
      `SELECT body AS receipt, signed, terms, raw_transaction AS raw FROM jobs
       JOIN receipts ON receipts.job_id = jobs.id JOIN authorizations ON authorizations.id = authorization_id
       JOIN settlements ON settlements.job_id = jobs.id
       JOIN settlement_transactions ON settlement_id = settlements.id WHERE jobs.id = $1`,
      [job?.id],
    )
    expect((await archive.run('--show', job?.id ?? '')).exitCode).toBe(1)
    await archiveOld()
    const { output } = await archive.run('--show', job?.id ?? '')
    expect(JSON.parse(output)).toMatchObject({
      job_id: job?.id,
      receipt: stored?.receipt,
      authorizations: [{ signed: stored?.signed }],
      terms: stored?.terms,
      key_terms: stored?.terms,
      payment_response: { success: true },
      transactions: [{ raw: stored?.raw }],
    })
  })

  it('finds an object that is damaged or missing', async () => {
    await oldCalls(ledger, 2)
    await archiveOld()
    const [path = ''] = await archive.files()
    const bytes = await readFile(path)
    expect((await archive.run('--verify')).output).toContain('1 objects are as they were archived.')
    await writeFile(path, Buffer.concat([bytes, Buffer.from([0])]))
    const damaged = await archive.run('--verify')
    expect([damaged.exitCode, damaged.errors]).toEqual([
      1,
      expect.stringContaining('has other bytes than were archived'),
    ])
    await writeFile(path, bytes)
    expect((await archive.run('--verify')).exitCode).toBe(0)
  })
})

describe('a run of the archive that is killed', () => {
  let ledger: TestLedger
  let archive: TestArchive
  let points: string
  beforeEach(async () => {
    ledger = await createTestLedger(4)
    archive = await createTestArchive(ledger)
    points = await mkdtemp(join(tmpdir(), 'farebox-points-'))
  })
  afterEach(async () => {
    await archive.close()
    await ledger.close()
    await rm(points, { recursive: true, force: true })
  })
  /** Runs the archive in a process that is killed at the point. */
  async function runUntil(point: string): Promise<void> {
    createPointControl(points).arm(point, 'kill')
    const child = spawnGuarded({
      command: process.execPath,
      args: [FIXTURE, points, NEXT_MONTH],
      env: { PATH: process.env['PATH'] ?? '', NODE_COMPILE_CACHE: COMPILE_CACHE, ...archive.environment },
      log: () => undefined,
    })
    expect(await child.exited).toEqual({ code: null, signal: 'SIGKILL' })
  }
  /** Returns every receipt as a process returns it that has read nothing before. */
  async function readReceipts(): Promise<readonly string[]> {
    const rows = await ledger.sql<{ id: string }>('SELECT id FROM receipts ORDER BY id')
    const reader = archive.openReader()
    return await Promise.all(rows.map(async ({ id }) => JSON.stringify(await reader.findReceipt(id))))
  }
  /** Returns how many calls the recorded objects have, and how many receipts point to an object. */
  async function archivedCalls() {
    const [row] = await ledger.sql<{ recorded: number; erased: number }>(
      `SELECT (SELECT coalesce(sum(calls), 0)::int FROM archive_objects) AS recorded,
       (SELECT count(*)::int FROM receipts WHERE archive_object IS NOT NULL) AS erased`,
    )
    return [row?.recorded, row?.erased]
  }

  it.each(POINTS)('at %s loses nothing, and the next run completes it', async (point) => {
    const jobs = await oldCalls(ledger, 4)
    // Two months, so that there is work after the point.
    await ledger.sql("UPDATE jobs SET finished_at = finished_at - interval '1 month' WHERE id = ANY($1)", [
      jobs.slice(2).map(({ id }) => id),
    ])
    const receipts = await readReceipts()
    await runUntil(point)
    const [recorded, erased] = await archivedCalls()
    expect([erased, await readReceipts()]).toEqual([recorded, receipts])
    expect([(await archive.run('--before', NEXT_MONTH)).exitCode, await readReceipts()]).toEqual([0, receipts])
    expect(await archivedCalls()).toEqual([4, 4])
    expect((await archive.run('--verify')).output).toBe('2 objects are as they were archived.\n')
    // What was written before the kill was written again with the same bytes, so nothing is left over.
    expect(await archive.files()).toHaveLength(2)
  })
})

describe('a service whose calls are archived', () => {
  let sandbox: TestSandbox
  let calls: readonly PaidCall[]
  let environment: Readonly<Record<string, string>>
  beforeAll(async () => {
    sandbox = await startTestSandbox()
    const paid: PaidCall[] = []
    for (const content of ['one', 'two', 'three']) paid.push(await payForCall(sandbox, PATH, request(content)))
    calls = paid
    const { databaseUrl, rpcUrl } = sandbox.info
    environment = {
      DATABASE_URL: databaseUrl,
      RPC_URL: rpcUrl,
      OBJECT_STORE_DIRECTORY: join(sandbox.directory, 'uploads'),
    }
    await makeOld(
      sandbox,
      (await sandbox.sql<{ id: string }>('SELECT id FROM jobs')).map(({ id }) => id),
    )
  })
  afterAll(() => sandbox.stop())
  function readReceipt({ answer }: PaidCall): Promise<Response> {
    const headers = { authorization: `Bearer ${answer.headers.get('x-receipt-token')}` }
    return fetch(`${sandbox.info.baseUrl}/v1/receipts/${answer.headers.get('x-receipt-id')}`, { headers })
  }
  /** What callers and operators see of the calls. */
  async function readEverything() {
    const period = ['--from', `${OLD_MONTH}-01T00:00:00Z`, '--json']
    const report = await callCommand(() => ledger(period, environment))
    return {
      receipts: await Promise.all(calls.map(async (call) => await (await readReceipt(call)).text())),
      replays: await Promise.all(
        calls.map(async (call) => {
          const replay = await call.repeat()
          const { error } = (await replay.json()) as { error: object }
          return [replay.status, replay.headers.get('x-receipt-id'), error]
        }),
      ),
      ledger: [report.exitCode, withoutTimes(report.output)],
      resolve: await callCommand(() => resolve(['list'], environment)),
    }
  }

  it('shows callers and operators what it did before, byte for byte, and verifies', async () => {
    const before = await readEverything()
    expect(before.replays).toEqual(
      calls.map(({ answer }) => [
        410,
        answer.headers.get('x-receipt-id'),
        expect.objectContaining({ payment: 'settled' }),
      ]),
    )
    expect(before.ledger[0]).toBe(0)
    const run = await callCommand(() => archive(['--before', NEXT_MONTH], environment))
    expect([run.exitCode, run.errors, run.output]).toEqual([0, '', expect.stringContaining('3 calls in 1 objects')])
    expect(await readEverything()).toEqual(before)
    const [{ answer } = {}] = calls
    const receiptToken = answer?.headers.get('x-receipt-token') ?? ''
    const verified = await verifyAsAnyone(sandbox.info, answer?.headers.get('x-receipt-id') ?? '', { receiptToken })
    expect(verified.outcome).toBe('passed')
  })

  it('binds the key of an archived call to nothing else, and charges nobody for it again', async () => {
    const [{ answer } = {}] = calls
    const [row] = await sandbox.sql<{ idempotency_key: string }>(
      'SELECT idempotency_key FROM jobs WHERE receipt_id = $1',
      [answer?.headers.get('x-receipt-id')],
    )
    const other = await sandbox.post(PATH, request('another'), { idempotencyKey: row?.idempotency_key ?? '' })
    expect([other.status, await other.json()]).toMatchObject([409, { error: { code: 'idempotency_key_reused' } }])
    expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toHaveLength(calls.length)
  })

  it('takes new calls, and answers 503 for archived receipts only, while the archive is away', async () => {
    const folder = join(sandbox.directory, 'uploads')
    // Another process has none of the objects in memory.
    process.kill(sandbox.pidOf('api'), 'SIGKILL')
    await sandbox.restart('api')
    await rename(join(folder, 'archive'), join(folder, 'away'))
    const paid = await payForCall(sandbox, PATH, request('four'))
    expect((await readReceipt(paid)).status).toBe(200)
    const [call] = calls
    if (!call) throw new Error('no call')
    const missing = await readReceipt(call)
    expect([missing.status, await missing.json()]).toMatchObject([503, { error: { code: 'receipt_unavailable' } }])
    await rename(join(folder, 'away'), join(folder, 'archive'))
    expect((await readReceipt(call)).status).toBe(200)
  })
})
