import { glob, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { PreparedStatement } from '#shared/adapters/postgres/pool.ts'
import { JOB_STATES } from '#shared/jobs/job.ts'
import { fencedWrites, jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { recordStatements } from '../../support/ledger/record-statements.ts'
import { settlingBatch } from '../../support/ledger/settling-batch.ts'
import { testAuthorization, testPermit } from '../../support/ledger/test-authorization.ts'
import { newTestBatch, renewalOf } from '../../support/ledger/test-batch.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

const ADAPTER = fileURLToPath(new URL('../../../shared/adapters/postgres/', import.meta.url))

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
  await ledger.admission.readOutcomes([completed.id])
  await ledger.admission.readOutcomes([completed.id, completed.id])
  for (const state of JOB_STATES) await jobInState(ledger, state)
  const [batched, failed] = await settlingBatch(ledger, 2)
  if (!batched || !failed) throw new Error('two jobs')
  await ledger.settlement.readSettlement(batched.job)
  await ledger.settlement.renewBatch([renewalOf(batched.job, batched.settlement)], newTestBatch())
  await fencedWrites.completeJob.run(ledger, batched.job)
  await fencedWrites.failSettlement.run(ledger, failed.job)
  const retried = await jobInState(ledger, 'generating')
  await fencedWrites.startAttempt.run(ledger, retried)
  for (const funds of [null, newTestJob().exposure.funds])
    await ledger.execution.readExposureAhead(retried, { funds, verifiedMsAgo: 0 })
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
  expect(names).toContain('claim_job')
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
  for (let call = 0; call < 3; call += 1) await ledger.admission.hasJob('a key')
  const plans = await ledger.sql(
    `SELECT count(*)::int AS statements, sum(generic_plans)::int AS runs, sum(custom_plans)::int AS planned_for_values
     FROM pg_prepared_statements WHERE name = 'has_job'`,
  )
  expect(plans).toEqual([{ statements: 1, runs: 3, planned_for_values: 0 }])
})

test('a column added by a later migration does not break a claim on a connection that prepared it before', async () => {
  const before = await jobInState(ledger, 'generated')
  await ledger.execution.releaseJob(before)
  expect(await ledger.execution.claimJob(before.id, 15_000)).toMatchObject({ state: 'generated' })
  await ledger.sql('ALTER TABLE jobs ADD COLUMN of_a_later_migration text')
  const after = await jobInState(ledger, 'generated')
  await ledger.execution.releaseJob(after)
  expect(await ledger.execution.claimJob(after.id, 15_000)).toMatchObject({ id: after.id, state: 'generated' })
})
